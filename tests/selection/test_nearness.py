import numpy as np
import pytest

from agentic_memory.document import parse_document
from agentic_memory.selection import nearness
from agentic_memory.selection.nearness import NearnessIndex
from agentic_memory.selection.vectors import as_stored


class Record:
    def __init__(self, version: str) -> None:
        self.version = version


def documents(**bodies: str) -> dict:
    return {f"{name}.md": (Record(body), parse_document(body.encode())) for name, body in bodies.items()}


def vector(text: str) -> np.ndarray:
    return as_stored(np.random.default_rng(abs(hash(text)) % 2**32).normal(size=16))


def fill(index: NearnessIndex, files: dict) -> None:
    index.put({text: vector(text) for text in index.update(files)})


def test_a_file_is_as_near_as_its_best_two_windows() -> None:
    index = NearnessIndex()
    files = documents(long="\n\n".join(f"paragraph {n}" for n in range(9)), short="one thing")
    fill(index, files)
    question = vector("question")
    near = index.search(question)
    for version, document in files.values():
        cosines = sorted(vector(w.text) @ question for w in nearness.split_windows(document))
        assert near.cosines[near.positions[version.version]] == pytest.approx(np.mean(cosines[-2:]), abs=1e-5)


def test_the_best_window_is_told_with_the_place_where_it_begins() -> None:
    index = NearnessIndex()
    files = documents(long="\n\n".join(f"paragraph {n}" for n in range(9)))
    fill(index, files)
    [(record, document)] = files.values()
    wanted = nearness.split_windows(document)[4]
    near = index.search(vector(wanted.text))
    assert near.start(record.version) == wanted.start
    assert np.allclose(near.vector(record.version), vector(wanted.text))


@pytest.mark.parametrize("page_rows", [2, 8192])
def test_what_is_edited_or_deleted_is_gone_at_once(monkeypatch: pytest.MonkeyPatch, page_rows: int) -> None:
    monkeypatch.setattr(nearness, "PAGE_ROWS", page_rows)
    index = NearnessIndex()
    files = documents(**{f"n{number}": f"text {number}" for number in range(9)})
    fill(index, files)
    files = {name: file for name, file in (files | documents(n3="another text")).items() if name != "n5.md"}
    fill(index, files)
    near = index.search(vector("another text"))
    assert set(near.positions) == {record.version for record, _ in files.values()}
    assert near.nearest(1) == ["n3.md"]
    assert sorted(near.nearest(100)) == sorted(files)


def test_a_file_of_which_a_vector_is_missing_takes_no_part() -> None:
    index = NearnessIndex()
    files = documents(whole="one thing", half="\n\n".join(f"paragraph {n}" for n in range(6)))
    first, *rest = index.update(files)
    lacking = [text for text in (first, *rest) if text != "one thing"]
    index.put({text: vector(text) for text in ("one thing", *lacking[1:])})
    assert index.search(vector("x")).nearest(10) == ["whole.md"]
    assert index.update(files) == lacking[:1]
    index.put({lacking[0]: vector(lacking[0])})
    assert sorted(index.search(vector("x")).nearest(10)) == ["half.md", "whole.md"]


def test_the_same_content_under_two_names_needs_one_vector_and_is_found_under_both() -> None:
    index = NearnessIndex()
    files = documents(a="the same", b="the same")
    assert index.update(files) == ["the same"]
    index.put({"the same": vector("the same")})
    assert sorted(index.search(vector("the same")).nearest(1)) == ["a.md", "b.md"]


def test_an_empty_memory_has_nothing_near() -> None:
    index = NearnessIndex()
    assert index.update({}) == []
    assert index.search(vector("x")).nearest(5) == []
