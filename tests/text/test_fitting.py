"""An index over its budget loses its middle, at whole lines, and says what."""

import pytest

from agentic_memory.index import TRUNCATION_MARK, fit_index, parse_index
from agentic_memory.lines import split_lines
from agentic_memory.tokens import estimate_tokens


def index_of(count: int, *, preamble: str = "# Memory\n\n") -> str:
    return preamble + "".join(f"- [Memory {n:03}](m{n:03}.md) — what number {n:03} says\n" for n in range(count))


def test_an_index_that_fits_is_unchanged() -> None:
    text = index_of(10)
    fitted = fit_index(parse_index(text), max_tokens=estimate_tokens(text))
    assert (fitted.text, fitted.cut, fitted.cut_lines) == (text, (), ())


def test_the_middle_falls_out_and_is_named() -> None:
    index = parse_index(index_of(100))
    fitted = fit_index(index, max_tokens=400)
    lines = split_lines(fitted.text)
    at = lines.index(TRUNCATION_MARK + "\n")
    assert lines[0] == "# Memory\n"
    assert "m000.md" in fitted.text
    assert "m099.md" in fitted.text
    assert abs(at - (len(lines) - at - 1)) <= 1
    ((first, last),) = fitted.cut_lines
    assert [entry.line for entry in fitted.cut] == list(range(first, last + 1))
    assert len(fitted.cut) + len(parse_index(fitted.text).entries) == 100


def test_the_budget_is_used() -> None:
    for max_tokens in range(50, 600, 7):
        used = estimate_tokens(fit_index(parse_index(index_of(100)), max_tokens=max_tokens).text)
        assert max_tokens - 12 < used <= max_tokens  # a line here is 12 tokens


def test_an_overlong_line_is_passed_over_alone() -> None:
    text = f"- [A](a.md)\n- [Long](long.md) — {'x' * 2000}\n- [B](b.md)\n"
    fitted = fit_index(parse_index(text), max_tokens=100)
    assert fitted.text == f"- [A](a.md)\n{TRUNCATION_MARK}\n- [B](b.md)\n"
    assert [entry.filename for entry in fitted.cut] == ["long.md"]
    assert fitted.cut_lines == ((2, 2),)


def test_several_gaps_are_several_ranges_and_one_mark() -> None:
    text = f"{'x' * 9000}\n{index_of(100)}{'y' * 9000}\n"
    fitted = fit_index(parse_index(text), max_tokens=300)
    assert fitted.text.count(TRUNCATION_MARK) == 1
    assert fitted.cut_lines[0] == (1, 1)
    assert fitted.cut_lines[-1] == (104, 104)
    assert len(fitted.cut_lines) == 3
    assert {"m000.md", "m099.md"}.isdisjoint(entry.filename for entry in fitted.cut)


def test_the_mark_ends_as_the_files_lines_do() -> None:
    fitted = fit_index(parse_index(index_of(100).replace("\n", "\r\n")), max_tokens=300)
    assert f"\r\n{TRUNCATION_MARK}\r\n" in fitted.text


@pytest.mark.parametrize("max_tokens", [-1, 0, 1, 3])
def test_no_room_for_a_line_means_everything_is_cut(max_tokens: int) -> None:
    index = parse_index(index_of(5))
    fitted = fit_index(index, max_tokens=max_tokens)
    assert fitted.text == ""
    assert fitted.cut == index.entries
    assert fitted.cut_lines == ((1, 7),)


def test_an_empty_index_always_fits() -> None:
    for max_tokens in (0, 1, 4000):
        assert fit_index(parse_index(""), max_tokens=max_tokens).text == ""
        assert fit_index(parse_index(""), max_tokens=max_tokens).cut_lines == ()


def test_ten_thousand_entries_are_fitted() -> None:
    index = parse_index(index_of(10_000))
    fitted = fit_index(index, max_tokens=4000)
    assert len(index.entries) == 10_000
    assert estimate_tokens(fitted.text) <= 4000
    assert index.find("m5000.md") in fitted.cut
