"""A line that stands for text left out is told from prose that has the same words."""

import pytest

from agentic_memory.stubs import find_stub, is_stub


@pytest.mark.parametrize(
    "line",
    [
        "[rest of file unchanged]",
        "[Rest of the file remains unchanged]",
        "... existing content ...",
        "... rest of the file ...",
        "...rest of content unchanged...",
        "… (remaining entries unchanged)",
        "// rest unchanged",
        "// ... existing code ...",
        "# ... rest of the file stays the same",
        "<!-- unchanged -->",
        "<!-- rest of document unchanged -->",
        "# (remaining lines omitted)",
        "(remaining content omitted for brevity)",
        "/* rest of the file is the same as before */",
        "- [existing entries]",
        "- ... other entries unchanged ...",
        "**[... remaining sections unchanged ...]**",
        "[... omitted ...]",
        "{existing content}",
        "The rest of the file is unchanged.",
        "Rest of file unchanged",
        "[all other content preserved]",
        "(everything else as before)",
        "... same as before ...",
        "[content truncated]",
        "[no changes]",
        "<<<TRUNCATED>>>",
        "（其余不变）",
        "……其余内容不变",
        "（其余内容保持不变）",
        "... 其余部分省略 ...",
        "// 其他内容不变",
        "<!-- 后面内容同上 -->",
        "[现有内容]",
        "（以下省略）",
        "其余内容保持不变。",
    ],
)
def test_a_line_that_is_nothing_but_a_stub_is_one(line: str) -> None:
    assert is_stub(line)
    assert is_stub(f"    {line}  ")
    assert find_stub(f"# A\n\n{line}\nmore\n", old="") is not None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "...",
        "[...]",
        "…",
        "---",
        "# Remaining work",
        "## Existing content",
        "### Unchanged",
        "## [Unreleased]",
        "- [ ] remaining items",
        "- [x] existing entries",
        "- [Existing content](existing.md) — what is there",
        "[existing content]: https://example.org",
        "The rest of the file is unchanged since March, so the parser skips it.",
        "When you rewrite a file, never leave [rest of file unchanged] in it.",
        "Price goes up; everything else unchanged.",
        "The user wants the rest of the text in Chinese.",
        "The rest",
        "- rest",
        "rest of the team",
        "(the rest of the team works in Berlin)",
        "> existing content",
        "| field | (unchanged) |",
        "<!-- truncate -->",
        "(see the remaining files in docs/)",
        "Unchanged",
        "unchanged:",
        "// TODO: check the remaining lines",
        "其余不变",
        "价格改为 5 元，其余不变。",
        "（其他人都去了杭州）",
        "用户希望其余内容用中文回答。",
        "……",
        "（略）",
        "other notes",
        "(other notes)",
    ],
)
def test_prose_headings_and_links_are_no_stubs(line: str) -> None:
    assert not is_stub(line)


def test_a_stub_in_new_text_is_refused_with_the_line() -> None:
    reason = find_stub("# A\n[rest of file unchanged]\n", old="# A\nlong\ntext\n")
    assert reason is not None
    assert "[rest of file unchanged]" in reason
    assert "Edit" in reason


def test_a_stub_like_line_that_was_there_before_may_stay() -> None:
    assert find_stub("new\n[rest of file unchanged]\n", old="old\r\n[rest of file unchanged]\r\n") is None


def test_a_line_that_read_cut_short_must_not_be_written_back() -> None:
    long = "word " * 500
    reason = find_stub(f"# A\n{long[:2000]}[truncated]\n", old=f"# A\n{long}\n")
    assert reason is not None
    assert "Read cut it short" in reason


def test_a_line_may_end_in_the_mark_where_nothing_was_cut() -> None:
    assert find_stub("The log says [truncated]\n", old="# A\n") is None
