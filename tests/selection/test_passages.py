from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.selection.passages import (
    PART_CHARS,
    count_lines,
    find_headings,
    split_parts,
    split_passages,
    widen_passage,
)

BODIES = st.lists(
    st.sampled_from(["# One\n", "## Two\n", "words " * 90, "\n\n", "\r\n\r\n", "```\n", "x" * 700, "茶" * 400]),
    max_size=40,
)


def test_a_heading_inside_a_code_fence_is_none() -> None:
    body = "# Real\n```sh\n# a comment\n~~~\n```\ntext\n~~~~\n## not this\n~~~\n~~~~\n### Deep ###\n"
    assert [(heading.level, heading.title) for heading in find_headings(body)] == [(1, "Real"), (3, "Deep")]


def test_a_part_knows_the_titles_it_stands_under() -> None:
    body = (
        "# Work\n"
        + "a line of text\n\n" * 400
        + "## Deploy\n"
        + "b line of text\n\n" * 400
        + "# Home\n"
        + "c line\n\n" * 900
    )
    paths = [part.path for part in split_parts(body, find_headings(body))]
    assert paths[0] == ()
    assert ("Work",) in paths
    assert ("Work", "Deploy") in paths
    assert paths[-1] == ("Home",)


@settings(max_examples=80, deadline=None)
@given(BODIES)
def test_pieces_cover_the_body_once_and_in_order(blocks: list[str]) -> None:
    body = "".join(blocks)
    headings = find_headings(body)
    parts = split_parts(body, headings)
    assert "".join(body[part.start : part.end] for part in parts) == body
    for part in parts:
        passages = split_passages(body, part, headings)
        assert "".join(body[start:end] for start, end in passages) == body[part.start : part.end]
        assert part.end - part.start <= 2 * PART_CHARS


def test_a_shown_passage_takes_its_neighbours_while_they_fit() -> None:
    passages = [(0, 300), (300, 550), (550, 900), (900, 950)]
    assert widen_passage(passages, 0) == (0, 550)
    assert widen_passage(passages, 3) == (550, 950)
    assert widen_passage([(0, 5000)], 0) == (0, 5000)


def test_lines_are_counted_as_an_editor_does() -> None:
    assert count_lines("a\nb\nc", 4, first=6) == 8
    assert count_lines("a\r\nb\r\nc", 6, first=6) == 8
    assert count_lines("a\rb\rc", 4) == 3
