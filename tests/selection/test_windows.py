from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.document import Document, parse_document
from agentic_memory.selection.windows import BLOCK_CHARS, MAX_WINDOWS, WINDOW_BLOCKS, WINDOW_CHARS, split_windows


def document(body: str, *, name: str = "", description: str = "") -> Document:
    head = f"---\nname: {name}\ndescription: {description}\n---\n" if name or description else ""
    return parse_document((head + body).encode())


def test_a_short_file_is_one_window_with_its_name_and_description() -> None:
    [window] = split_windows(document("Green, no milk.", name="Tea", description="What to drink"))
    assert window.text == "Tea. What to drink\nGreen, no milk."


def test_a_longer_file_has_its_name_and_description_as_a_window_of_their_own() -> None:
    windows = split_windows(document("\n\n".join(f"Paragraph {n}." for n in range(6)), name="Notes", description="All"))
    assert windows[0].text == "Notes. All"
    assert windows[1].text == "Paragraph 0.\n\nParagraph 1.\n\nParagraph 2."


def test_a_file_without_a_body_is_found_by_its_name_and_one_without_anything_not_at_all() -> None:
    assert [window.text for window in split_windows(document("", name="Tea"))] == ["Tea"]
    assert split_windows(document("  \n\n \n")) == []


def test_windows_begin_at_each_paragraph_and_reach_over_the_next() -> None:
    windows = split_windows(document("\n\n".join("abcdef")))
    assert [window.text.split() for window in windows] == [
        ["a", "b", "c"],
        ["b", "c", "d"],
        ["c", "d", "e"],
        ["d", "e", "f"],
    ]


def test_a_window_does_not_pass_its_size_for_another_paragraph() -> None:
    paragraph = "word " * (BLOCK_CHARS // 6)
    windows = split_windows(document("\n\n".join([paragraph] * 12)))
    assert all(len(window.text) <= WINDOW_CHARS for window in windows)


def test_a_huge_file_has_a_bounded_number_of_windows() -> None:
    assert len(split_windows(document("One sentence of some words. " * 100_000))) <= MAX_WINDOWS + WINDOW_BLOCKS


@given(st.text(alphabet="ab \n#`中", max_size=3_000))
def test_nothing_of_a_body_is_left_out(text: str) -> None:
    body = parse_document(text.encode()).body
    covered = set()
    for window in split_windows(document(text)):
        start = body.index(window.text, window.start)
        covered |= set(range(start, start + len(window.text)))
    assert all(at in covered for at, character in enumerate(body) if not character.isspace())
