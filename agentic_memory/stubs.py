"""Notes that stand for text a model left out, such as ``[rest of file unchanged]``.

Written to a file they look like success and lose what was there.
"""

import re
from collections.abc import Iterator
from typing import Final

from agentic_memory.lines import normalise_newlines

MAX_STUB_CHARACTERS: Final = 120
"""A stub is a short line; a longer one is prose and is not looked at."""

_TRUNCATED_INDEX: Final = "<<<TRUNCATED>>>"
_TRUNCATED_LINE: Final = "[truncated]"

# A whole line made of nothing but a stub is one; the same words inside a sentence are not. Most phrases count only
# when something sets them apart from prose: an ellipsis, brackets or a comment.
_TASK: Final = re.compile(r"[-*+]\s+\[[ xX]\]\s")
_AROUND: Final = " \t/#*<>!-–—_.…⋯。;:：,，[](){}（）【】〔〕《》"
_ELLIPSIS: Final = re.compile(r"\.\.|…|⋯")
_SET_APART: Final = re.compile(r"^(?:[-*+#]+\s+)?(?:[\[({（【]|//|/\*|<!--|#\s*[\[({（【]).*|.*(?:\*/|-->)$")

_WHAT = (
    r"(?:files?|contents?|text|documents?|code|sections?|lines?|entry|entries|items?|memory|memories|notes?|body|list|"
    r"page|index|frontmatter|paragraphs?)"
)
_OF = rf"of\s+(?:(?:the|this|your|our)\s+)?(?:\w+\s+)?{_WHAT}"
_REST = rf"(?:the\s+)?(?:rest|remainder)(?:\s+{_OF})?"
_REMAINING = rf"(?:(?:the|all|all\s+the)\s+)?(?:(?:remaining|existing)\s+){{1,2}}{_WHAT}"
_OTHER = rf"(?:(?:the|all|all\s+the)\s+)?(?:(?:other|previous|original|prior|earlier|same|unchanged)\s+){{1,2}}{_WHAT}"
_ALL_ELSE = r"(?:everything|all)\s+else"
_STATE = (
    r"(?:(?:is|are|was|were|has|have|been|remains?|stays?|kept|left|continues?|goes)\s+){0,3}"
    r"(?:unchanged|unmodified|untouched|intact|preserved|omitted|truncated|elided|skipped|(?:the\s+)?same|as\s+is|"
    r"(?:(?:the\s+)?same\s+)?as\s+(?:before|above|it\s+was)|(?:goes\s+|continues\s+)?here|continues)"
    r"(?:\s+(?:here|below|above|for\s+brevity|as\s+before|from\s+here))?"
)
_ZH_REST = (
    r"(?:文件|文档)?(?:的)?(?:其余|剩余|余下|剩下|其他|其它|后面|后续|以下|以上|前面|之前|原有|现有|已有)(?:的)?"
    r"(?:部分|内容|文本|代码|文件|文档|条目|行|章节|段落){0,2}"
)
_ZH_STATE = (
    r"(?:均|都|全部|皆|已)?(?:保持|维持)?(?:不变|原样|省略|略去?|同上|同前|未改动|未修改|未变|没有变化|不做修改|保留)"
)


def _whole(*phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases), re.IGNORECASE)


_ALWAYS: Final = _whole(
    rf"(?:the\s+)?(?:rest|remainder)\s+{_OF}\s+(?:\(?{_STATE})",
    r"(?:文件|文档)?(?:其余|剩余|余下)(?:的)?(?:内容|部分)" + _ZH_STATE,
)
_WHEN_SET_APART: Final = _whole(
    rf"(?:{_REST}|{_REMAINING}|{_OTHER}|{_ALL_ELSE})[\s,:]+{_STATE}",
    rf"(?:the\s+)?(?:rest|remainder)\s+{_OF}",
    _REMAINING,
    rf"(?:{_WHAT}\s+)?(?:unchanged|omitted|truncated|elided|snipped)(?:\s+for\s+brevity)?",
    r"no changes?(?:\s+(?:here|below|above))?",
    _ZH_REST + _ZH_STATE,
    r"(?:此处|内容|以下|以上|其余)省略|保持不变|(?:现有|原有|已有|其余|剩余)内容",
)
_WHEN_ELLIPTIC: Final = _whole(
    _REST,
    _OTHER,
    _ALL_ELSE,
    rf"{_WHAT}\s+continues",
    r"(?:the\s+)?same\s+as\s+(?:before|above)",
    r"其余|不变|省略|同上",
)


# Every phrase above has one of these in it; only lines that do are looked at more closely.
_TELLTALE: Final = re.compile(
    "rest|remain|existing|other|previous|original|prior|earlier|same|unchanged|else|omitted|truncated|elided|snipped|"
    "no change|continues|[不省同内]|其余"
)


def is_stub(line: str) -> bool:
    """Say whether ``line`` consists of nothing but a note that text was left out."""
    line = line.strip()
    if line == _TRUNCATED_INDEX:
        return True
    if not line or len(line) > MAX_STUB_CHARACTERS or _TASK.match(line):
        return False
    core = line.strip(_AROUND)
    if _ALWAYS.fullmatch(core):
        return True
    elliptic = bool(_ELLIPSIS.search(line))
    if (elliptic or _SET_APART.match(line)) and _WHEN_SET_APART.fullmatch(core):
        return True
    return elliptic and bool(_WHEN_ELLIPTIC.fullmatch(core))


def find_stub(new: str, *, old: str) -> str | None:
    """Return why ``new`` may not replace ``old`` if a line of it stands for text that was left out.

    A line that ``old`` holds already is none: whoever wrote it meant it.
    """
    new, before = normalise_newlines(new), set(normalise_newlines(old).split("\n"))
    for line in _suspects(new):
        if line in before:
            continue
        if is_stub(line):
            return (
                f"the line {line.strip()!r} stands for text that was left out, and that text would be lost. "
                "Give the whole text, or use Edit for the part that changes"
            )
        if line.endswith(_TRUNCATED_LINE) and _is_cut_short(line.removesuffix(_TRUNCATED_LINE), before):
            return (
                f"the line that begins {line[:40]!r} ends in {_TRUNCATED_LINE}, where Read cut it short for you; the "
                "rest of it would be lost. Use Edit for the part that changes"
            )
    return None


def _suspects(text: str) -> Iterator[str]:
    # Searching a lower-case copy is five times as fast as ignoring case. Only ASCII is lowered: places must not move.
    lowered = text.encode("utf-8", errors="surrogatepass").lower().decode("utf-8", errors="surrogatepass")
    end = -1
    for word in _TELLTALE.finditer(lowered):
        if word.start() > end:
            end = text.find("\n", word.start())
            end = len(text) if end < 0 else end
            yield text[text.rfind("\n", 0, word.start()) + 1 : end]


def _is_cut_short(beginning: str, lines: set[str]) -> bool:
    return any(line.startswith(beginning) and len(line) > len(beginning) for line in lines)
