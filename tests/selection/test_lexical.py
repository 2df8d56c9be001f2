import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.document import Document, parse_document
from agentic_memory.selection.lexical import LexicalIndex, stands_out


def memory(name: str, body: str, *, description: str = "") -> Document:
    return parse_document(f"---\nname: {name}\ndescription: {description}\ntype: user\n---\n{body}".encode())


def index_of(**bodies: str) -> LexicalIndex:
    index = LexicalIndex()
    index.update({f"{name}.md": ("1", memory(name, body)) for name, body in bodies.items()})
    return index


def names(index: LexicalIndex, query: str, *, limit: int = 5) -> list[str]:
    return [hit.filename for hit in index.search(query, limit=limit)]


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ("用户喜欢绿茶", "绿茶"),
        ("用户喜欢绿茶", "茶"),
        ("用户喜欢绿茶", "我喜欢喝什么茶？"),
        ("ユーザーは緑茶が好き", "緑茶"),
        ("사용자는 녹차를 좋아한다", "녹차"),
        ("call getUserName before the request", "user name"),
        ("call get_user_name before the request", "getUserName"),
        ("set max_tokens to 4000", "max tokens"),
        ("broken since v2.3.1", "2.3.1"),
        ("broken since 2.3.1", "v2.3.1"),
        ("fails with ERR_CONN_RESET", "err_conn_reset"),
        ("fails with E1234", "e1234"),
        ("see src/agent/run_loop.py", "run_loop.py"),
        ("moved to Zürich", "zurich"),
        ("moved to Zurich", "Zürich"),
        ("ＤＥＰＬＯＹ on friday", "deploy"),
        ("she went hiking in the mountains", "hike mountain"),
        ("studies chemistry", "study"),
        ("prefers concise answers", "prefered consise"),
        ("met on 2024-05-01", "2024-05-01"),
        ("met on 2024-05-01", "2024"),
        ("ich fahre Straßenbahn", "strassenbahn"),
    ],
)
def test_a_body_is_found_by_what_a_person_would_type(body: str, query: str) -> None:
    index = index_of(wanted=body, other="the quarterly budget is due in march", third="团队周会在周三上午")
    assert names(index, query)[:1] == ["wanted.md"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "👍", "zyzzyva quixotry", "\ud800", "\0"])
def test_nothing_relevant_is_an_empty_list(query: str) -> None:
    assert index_of(a="green tea", b="black coffee").search(query) == []


def test_an_empty_index_answers_with_nothing() -> None:
    assert LexicalIndex().search("anything") == []
    assert not stands_out([])


def test_one_word_shared_with_every_file_still_finds_something_in_a_tiny_store() -> None:
    assert names(index_of(a="green tea", b="black tea"), "tea") == ["a.md", "b.md"]


def test_a_name_counts_more_than_a_mention() -> None:
    index = LexicalIndex()
    index.update(
        {
            "mention.md": (
                "1",
                memory("weekly notes", "we talked about the deployment and then about lunch and the office"),
            ),
            "named.md": (
                "1",
                memory("deployment", "push the tag, wait for the build, then roll it out to all of them"),
            ),
        }
    )
    assert names(index, "deployment") == ["named.md", "mention.md"]


def test_an_edit_is_searched_at_once_and_the_old_text_is_gone() -> None:
    index = LexicalIndex()
    index.update({"a.md": ("1", memory("a", "green tea"))})
    index.update({"a.md": ("2", memory("a", "black coffee"))})
    assert names(index, "coffee") == ["a.md"]
    assert names(index, "green") == []


def test_a_removed_file_is_gone() -> None:
    index = index_of(a="green tea", b="green coffee")
    index.update({"b.md": ("1", memory("b", "green coffee"))})
    assert names(index, "green") == ["b.md"]
    assert len(index) == 1
    index.update({})
    assert index.search("green") == []


def test_only_a_file_that_changed_is_read_again() -> None:
    index = index_of(a="green tea", b="black coffee")
    before = index._collection
    index.update({"a.md": ("2", memory("a", "green tea")), "b.md": ("2", memory("b", "black coffee"))})
    assert index._collection is before
    index.update({"a.md": ("2", memory("a", "green tea")), "b.md": ("2", memory("b", "white coffee"))})
    assert [len(shelf.segment.filenames) for shelf in index._collection.shelves] == [2]
    assert names(index, "white") == ["b.md"]


def test_a_mapping_that_its_owner_changes_later_is_compared_as_it_was() -> None:
    index = LexicalIndex()
    files = {"a.md": ("1", memory("a", "green tea"))}
    index.update(files)
    files["a.md"] = ("2", memory("a", "black coffee"))
    index.update(files)
    assert names(index, "coffee") == ["a.md"]
    assert names(index, "tea") == []


def test_a_long_file_is_found_by_its_middle_and_shown_from_there() -> None:
    filler = [f"Entry {number}: the meeting about topic {number % 17} went on as planned." for number in range(3000)]
    filler[1500] = "The spare key hangs behind the Kandinsky print."
    body = "# Diary\n\n" + "\n\n".join(filler)
    index = index_of(long=body, short="a key topic of the meeting", other="entry planned")
    [hit] = index.search("Where is the spare key, behind the Kandinsky?")[:1]
    assert hit.filename == "long.md"
    assert "Kandinsky" in hit.passage
    assert len(hit.passage) < 1000
    text = f"---\nname: long\ndescription: \ntype: user\n---\n{body}".splitlines()
    assert text[hit.line - 1] == hit.passage.splitlines()[0]


def test_limit_bounds_the_answer() -> None:
    index = index_of(**{f"n{number}": "green tea" for number in range(20)})
    assert names(index, "tea", limit=3) == ["n0.md", "n1.md", "n10.md"]
    assert index.search("tea", limit=0) == []


def test_coverage_says_which_share_of_the_query_a_file_has() -> None:
    index = index_of(both="green tea", one="green paint")
    both, one = index.search("green tea")
    assert both.coverage == pytest.approx(1.0)
    assert 0 < one.coverage < 1


WORDS = ["tea", "green", "tram", "zurich", "deploy", "绿茶", "团队周会", "getUserName", "v1.2", "notes"]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
stores = st.dictionaries(st.sampled_from([f"f{number}.md" for number in range(8)]), texts, max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(stores, min_size=1, max_size=6), texts)
def test_an_updated_index_answers_like_a_fresh_one(steps: list[dict[str, str]], query: str) -> None:
    updated = LexicalIndex()
    for step in steps:
        updated.update({name: (body, memory(name, body)) for name, body in step.items()})
    fresh = LexicalIndex()
    fresh.update({name: (body, memory(name, body)) for name, body in steps[-1].items()})
    assert updated.search(query, limit=8) == fresh.search(query, limit=8)


def test_searches_run_beside_updates() -> None:
    index = index_of(stay="green tea")
    stop = threading.Event()
    failures: list[object] = []

    def search() -> None:
        while not stop.is_set():
            found = names(index, "green tea", limit=1)
            if found != ["stay.md"]:
                failures.append(found)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    shuffle = random.Random(7)
    for step in range(60):
        others = {
            f"o{number}.md": (str(step), memory("o", f"tram {shuffle.random()}"))
            for number in range(shuffle.randint(0, 9))
        }
        index.update({"stay.md": ("1", memory("stay", "green tea")), **others})
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_one_word_in_common_of_several_is_no_answer() -> None:
    index = index_of(**{f"n{number}": f"topic {number}" for number in range(30)}, policy="the policy on parking")
    assert index.search("what is the policy on sabbaticals and unpaid leave") == []


def test_a_clear_match_stands_out_and_a_tie_does_not() -> None:
    index = index_of(key="the spare key hangs behind the print", a="green tea in the morning", b="green tea at night")
    assert stands_out(index.search("where is the spare key"))
    assert not stands_out(index.search("green tea"))


def test_a_huge_query_is_answered() -> None:
    index = index_of(key="the spare key hangs behind the kandinsky", other="green tea")
    assert names(index, "kandinsky " * 5000) == ["key.md"]


def test_a_failed_update_leaves_the_index_as_it_was() -> None:
    index = index_of(a="green tea")
    broken: dict = {"a.md": ("2", memory("a", "black coffee")), "b.md": ("1", None)}
    with pytest.raises(AttributeError):
        index.update(broken)
    assert names(index, "tea") == ["a.md"]
    index.update({"a.md": ("2", memory("a", "black coffee"))})
    assert names(index, "coffee") == ["a.md"]


def test_a_file_without_a_body_shows_its_description() -> None:
    index = LexicalIndex()
    index.update({"a.md": ("1", memory("tea", "", description="likes sencha"))})
    [hit] = index.search("sencha")
    assert (hit.passage, hit.line) == ("likes sencha", 1)
