"""What a person should look at in a memory: the problems of each file, of the index, and of all of them together.

Nothing here stops anything from working. Severity ``error`` means something is lost to the agent, ``warning`` something
is worse than it could be, ``info`` worth knowing. Wording and remedy of each code are in ``agentic_memory.problems``.

========================  ========  ====================================================  ===============================
code                      severity  what is wrong                                         what to do
========================  ========  ====================================================  ===============================
binary                    error     NUL bytes: not text                                   restore or delete the file
git-crypt                 error     encrypted by git-crypt                                unlock the repository
not-utf8                  warning   a byte that is not UTF-8                              save as UTF-8
other-encoding            info      GBK or UTF-16                                         save as UTF-8
no-frontmatter            warning   no header, so no name and no description              add one
frontmatter-not-first     warning   a comment or blank lines before the header            move the fence to line 1
frontmatter-unterminated  warning   the header is not closed before the text begins       add the closing fence
frontmatter-not-yaml      warning   not YAML, read line by line                           quote the value
frontmatter-refused       warning   alias, anchor, own tag or deep nesting: not expanded  quote it, or write it out
frontmatter-too-long      warning   over 64 k characters, read line by line               move the text to the body
second-block              warning   two headers in a row                                  merge them
comment-in-value          warning   a `` #`` that YAML takes for a comment                quote the value
duplicate-key             warning   a key stands twice, the last one counts               keep one
full-width-colon          warning   a full-width colon after a key                        write ``key: ``
missing-space             warning   no space after the colon                              write ``key: ``
missing-name              warning   no name                                               add one
missing-description       warning   no description                                        add one
missing-type              info      no type                                               add one
topic-description         info      a description that says what, but not when to read it  say when
relative-date             info      "tomorrow", "下周四": true on one day only            write the date
expired                   info      ``expires`` or ``valid_until`` is over                renew or forget it
expiry-no-date            info      ``expires`` or ``valid_until`` is no date             write it as 2026-12-31
same-text                 info      nearly the same text as another memory                keep one
conflict-markers          error     an unresolved merge                                   keep one side
invisible-characters      warning   characters that show nothing, but tell a model something  remove them
secret                    warning   a key, token or password                              keep it elsewhere, change it
instruction-like          warning   text that gives a model orders                        reword or remove it
dangling-wikilink         info      a wiki link that names no memory                      correct it
index-missing             warning   memories, but no MEMORY.md                            list them in one
entry-without-file        warning   the index names a file that is not there              correct or remove the line
duplicate-entry           warning   a file is listed twice                                keep one line
entry-too-long            info      an index line of more than 150 characters             shorten the hook
text-in-index             warning   content that stands in the index instead of a file    move it to a file
index-over-budget         warning   some lines of the index do not reach the agent        shorten or merge
not-in-index              warning   a memory the index does not name                      add its line
two-indexes               warning   ``memory.md`` beside ``MEMORY.md``                    merge them
nested-index              info      a MEMORY.md in a folder, which is ignored             merge it into the top one
sync-conflict             warning   a conflict copy of a sync tool, which is ignored      merge and delete it
possible-copy             info      looks like a copy of another memory                   keep one
same-name                 warning   two names that some file systems take for one         rename one
========================  ========  ====================================================  ===============================
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final

from agentic_memory.credentials import find_secrets
from agentic_memory.dates import absolute, find_relative_dates, read_date
from agentic_memory.descriptions import names_only_a_topic
from agentic_memory.document import Document
from agentic_memory.duplicates import find_duplicates
from agentic_memory.index import INDEX_FILENAME, MAX_LINE_CHARS, Index, IndexEntry, fit_index
from agentic_memory.lines import count_breaks, split_lines, strip_ending
from agentic_memory.orders import find_orders
from agentic_memory.problems import make_problem
from agentic_memory.prose import blank_code
from agentic_memory.shown import reveal
from agentic_memory.tokens import estimate_tokens
from agentic_memory.values import Problem

DEFAULT_INDEX_TOKENS: Final = 4000
"""AgentScope's default budget for the index in the prompt."""

# Names that only a sync tool gives: Syncthing; Dropbox, Nextcloud and Obsidian Sync; ownCloud; Dropbox on file systems
# that ignore case.
_SYNC_CONFLICT: Final = re.compile(
    r"\.sync-conflict-\d{8}-\d{6}|\([^()]*conflicted copy[^()]*\)|_conflict-\d{8}-\d{6}|\(case conflict(?: \d+)?\)",
    re.IGNORECASE,
)
# Names a person may give too (iCloud "a 2.md", browsers and Google Drive "a (1).md", OneDrive "a-DESKTOP-1A2B3C4.md"):
# these stay memories, and are only noted when the original stands beside them.
_COPY: Final = re.compile(
    r"(?P<stem>.+?)(?: \d| \(\d{1,2}\)|-(?:DESKTOP|LAPTOP)-[0-9A-Z]{7,8})(?P<suffix>\.md)", re.IGNORECASE
)
_CONFLICT: Final = re.compile(r"(?:^|(?<=[\r\n]))(<{7}|={7}|>{7})(?=[ \r\n]|\Z)")
_WIKILINK: Final = re.compile(r"\[\[([^\[\]|#\r\n]+)(?:[|#][^\[\]\r\n]*)?\]\]")
MAX_DATES: Final = 10
"""Relative dates told of one file: a diary has hundreds, and one remedy."""
MAX_TEXT_TOKENS: Final = 75
"""Text in one piece that an index may hold without naming a file: an introduction, not a memory."""

_EXPIRY_KEYS: Final = frozenset({"expires", "expires_at", "expires_on", "expiry", "valid_until", "valid_to"})
_WRITTEN_KEYS: Final = ("date", "updated", "modified", "created")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_WORD_BREAKS: Final = re.compile(r"[\s_-]+")

_USUAL_PATH: Final = re.compile(r"(?:[a-z0-9][^/.\0]*/)*[a-z0-9][^/\0]*\.md")


def is_memory_path(path: str) -> bool:
    """Tell whether a path relative to the memory directory is that of a memory.

    It ends in ``.md`` (any case). Never a memory: an index at any depth, anything hidden, a sync conflict's copy, what
    editors leave behind, and a path that is not relative or climbs.
    """
    if _USUAL_PATH.fullmatch(path) and not path.endswith("memory.md") and "onflict" not in path:
        return True  # asked of every file at every load
    parts = path.split("/")
    name = parts[-1]
    return (
        name[-3:].lower() == ".md"
        and name.lower() != INDEX_FILENAME.lower()
        and not any(part.startswith(".") or not part for part in parts)
        and not name.startswith("~$")
        and "\0" not in path
        and not is_sync_conflict(name)
    )


def is_sync_conflict(name: str) -> bool:
    """Tell whether only a sync tool could have given this file name."""
    return "onflict" in name.lower() and _SYNC_CONFLICT.search(name) is not None


def check_memory(
    *,
    documents: Mapping[str, Document],
    index: Index | None,
    other_paths: Collection[str] = (),
    max_index_tokens: int = DEFAULT_INDEX_TOKENS,
    written: Mapping[str, date] = MappingProxyType({}),
    today: date | None = None,
) -> list[Problem]:
    """List every problem of a memory, sorted by file and line.

    Args:
        documents: Every memory by its path relative to the memory directory.
        index: The index; None when there is none.
        other_paths: What else stands in the directory, also what could not be read. An index entry that names one of
            these is not said to be without a file.
        max_index_tokens: The budget for the index in the prompt.
        written: When files were last changed, for advice on relative dates.
        today: What expiry dates are compared with; the present day in UTC when None.
    """
    today = today or datetime.now(UTC).date()
    found = [problem for document in documents.values() for problem in document.problems]
    found += _check_names(documents, other_paths)
    targets = _link_targets(documents)
    for path, document in documents.items():
        found += _check_document(path, document, targets)
        found += _check_dates(path, document, written.get(path), today)
    found += _check_duplicates(documents)
    if index is not None:
        found += check_index(index, documents, other_paths, max_index_tokens)
    elif documents:
        found.append(make_problem("index-missing", INDEX_FILENAME))
    return sorted(found, key=lambda problem: (problem.file, problem.line or 0, problem.code))


def _check_document(path: str, document: Document, targets: Collection[str]) -> Iterator[Problem]:
    if document.encoding == "binary":
        return
    if document.header is None:
        yield make_problem("no-frontmatter", path)
    else:
        for key in ("name", "description", "type"):
            if not getattr(document, key):
                yield make_problem(f"missing-{key}", path)
        if names_only_a_topic(document.description, name=document.name):
            yield make_problem("topic-description", path, description=document.description)
    yield from _check_conflict(path, document.text)
    yield from _check_secrets(path, document.text)
    yield from _check_invisible(path, document.text)
    yield from _check_orders(path, document.text)
    if "[[" in document.body:
        yield from _check_wikilinks(path, document, targets)


def _check_dates(path: str, document: Document, written: date | None, today: date) -> Iterator[Problem]:
    if document.encoding == "binary":
        return
    for key, value in document.fields.items():
        if value and key.lower().replace("-", "_") in _EXPIRY_KEYS:
            until = read_date(value)
            if until is None:
                yield make_problem("expiry-no-date", path, key=key, value=value)
            elif until < today:
                yield make_problem("expired", path, key=key, date=until)
    found = find_relative_dates(document.text)[:MAX_DATES]
    if not found:
        return
    stated = (read_date(document.fields.get(key, "")) for key in _WRITTEN_KEYS)
    on = next((day for day in stated if day is not None), written)
    at, line = 0, 1
    for each in found:
        line += count_breaks(document.text, at, each.start)
        at = each.start
        meant = None if on is None else absolute(each, on=on)
        proposal = f": {meant}, if it was written on {on}" if meant else ""
        yield make_problem("relative-date", path, line, text=each.text, proposal=proposal)


def _check_duplicates(documents: Mapping[str, Document]) -> Iterator[Problem]:
    bodies = {path: document.body for path, document in documents.items() if document.encoding != "binary"}
    for twin in find_duplicates(bodies):
        share = "just" if twin.similarity == 1 else f"{twin.similarity:.0%} of"
        yield make_problem("same-text", twin.path, other=twin.original, share=share)


def _check_conflict(path: str, text: str) -> Iterator[Problem]:
    if "<<<<<<<" not in text or ">>>>>>>" not in text:
        return
    opened = None
    for mark, line in _number(_CONFLICT.finditer(text), text, 1):
        if mark[1][0] == "<":
            opened = line
        elif mark[1][0] == ">" and opened is not None:
            yield make_problem("conflict-markers", path, opened)
            opened = None


def _check_secrets(path: str, text: str) -> Iterator[Problem]:
    for finding in find_secrets(text):
        line = count_breaks(text, 0, finding.start) + 1
        yield make_problem("secret", path, line, kind=finding.kind.replace("-", " "))


def _check_invisible(path: str, text: str) -> Iterator[Problem]:
    if text.isascii():
        return
    text = text.removeprefix("\ufeff")  # a byte order mark
    lines = [number for number, line in enumerate(split_lines(text), 1) if reveal(line) != line]
    if lines:
        yield make_problem("invisible-characters", path, lines[0], count=len(lines))


def _check_orders(path: str, text: str) -> Iterator[Problem]:
    for order in find_orders(text):
        yield make_problem("instruction-like", path, order.line, kind=order.kind)


def _number(matches: Iterable[re.Match[str]], text: str, first_line: int) -> Iterator[tuple[re.Match[str], int]]:
    """Yield every match with its line, counting each line break once however many matches there are."""
    at, line = 0, first_line
    for match in matches:
        line += count_breaks(text, at, match.start())
        at = match.start()
        yield match, line


def _link_targets(documents: Mapping[str, Document]) -> Collection[str]:
    targets = {_fold(INDEX_FILENAME), _fold(INDEX_FILENAME[:-3])}
    for path, document in documents.items():
        stem = path[:-3]
        targets |= {_fold(path), _fold(stem), _fold(stem.rpartition("/")[2]), _fold(document.name)}
    return targets


def _fold(name: str) -> str:
    """Make names comparable as people write them in links: case, spaces, underscores and hyphens do not count."""
    return _WORD_BREAKS.sub(" ", unicodedata.normalize("NFC", name).casefold()).strip()


class NearNames:
    """The memories that somebody may have meant by a file name that is none."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = {}
        for path in paths:
            self._paths.setdefault(_fold(path), []).append(path)
            self._names.setdefault(_fold(path.rpartition("/")[2]), []).append(path)

    def find(self, filename: str) -> list[str]:
        """Return those that differ in case, blanks and hyphens only; else those of that name in another folder."""
        return self._paths.get(_fold(filename)) or self._names.get(_fold(filename.rpartition("/")[2])) or []


def _check_wikilinks(path: str, document: Document, targets: Collection[str]) -> Iterator[Problem]:
    text = blank_code(document.body)
    for link, line in _number(_WIKILINK.finditer(text), text, document.body_line):
        target = link[1]
        # `[[ -f file ]]` is a shell's test, not a link.
        if target[0] != " " and _fold(target).removesuffix(".md") not in targets and _fold(target) not in targets:
            yield make_problem("dangling-wikilink", path, line, target=target)


def entries_without_file(
    index: Index, documents: Mapping[str, Document], other_paths: Collection[str]
) -> dict[str, IndexEntry]:
    """Return the files that the index names and that are not there, each with its first entry."""
    here = {unicodedata.normalize("NFC", path) for path in (*documents, *other_paths)}
    absent: dict[str, IndexEntry] = {}
    for entry in index.entries:
        if unicodedata.normalize("NFC", entry.filename) not in here:
            absent.setdefault(entry.filename, entry)
    return absent


def check_index(
    index: Index, documents: Mapping[str, Document], other_paths: Collection[str], max_tokens: int
) -> Iterator[Problem]:
    """Yield the problems of the index, and the memories that it does not name."""
    yield from index.problems
    yield from _check_conflict(INDEX_FILENAME, index.text)
    yield from _check_secrets(INDEX_FILENAME, index.text)
    yield from _check_invisible(INDEX_FILENAME, index.text)
    yield from _check_orders(INDEX_FILENAME, index.text)
    near = NearNames(documents)
    lines = split_lines(index.text)
    absent = entries_without_file(index, documents, other_paths)
    for entry in index.entries:
        if entry.filename not in absent:
            continue
        meant = near.find(entry.filename)
        advice = f"write {meant[0]} instead" if meant else "remove the line, or bring the file back"
        yield make_problem("entry-without-file", INDEX_FILENAME, entry.line, filename=entry.filename, advice=advice)
    for number in sorted({entry.line for entry in index.entries}):
        length = len(strip_ending(lines[number - 1]))
        if length > MAX_LINE_CHARS:
            yield make_problem("entry-too-long", INDEX_FILENAME, number, length=length, limit=MAX_LINE_CHARS)
    for first, text in _loose_text(index, lines):
        tokens = estimate_tokens(text)
        if tokens > MAX_TEXT_TOKENS:
            yield make_problem("text-in-index", INDEX_FILENAME, first, tokens=tokens)
    fitted = fit_index(index, max_tokens=max_tokens)
    if fitted.cut_lines:
        yield make_problem(
            "index-over-budget",
            INDEX_FILENAME,
            fitted.cut_lines[0][0],
            tokens=estimate_tokens(index.text),
            limit=max_tokens,
            lines=", ".join(f"{first}-{last}" if first < last else f"{first}" for first, last in fitted.cut_lines),
        )
    for path, document in documents.items():
        if index.find(path) is None:
            title = document.name or path.rpartition("/")[2][:-3]
            yield make_problem("not-in-index", path, title=title, target=path)


def _loose_text(index: Index, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield what stands between headings and entries, in one piece each, with its first line."""
    entries = {entry.line for entry in index.entries}
    first, piece = 0, ""
    for number, line in enumerate(lines, 1):
        if number in entries or _HEADING.match(line):
            if piece:
                yield first, piece
            piece = ""
        elif line.strip():
            first = first if piece else number
            piece += line
    if piece:
        yield first, piece


def _check_names(documents: Mapping[str, Document], other_paths: Collection[str]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for path in sorted(documents):
        other = seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
        if other != path:
            yield make_problem("same-name", path, other=other)
        copy = _COPY.fullmatch(path)
        original = copy["stem"] + copy["suffix"] if copy else ""
        if original in documents:
            yield make_problem("possible-copy", path, other=original)
    for path in sorted(other_paths):
        folder, _, name = path.rpartition("/")
        if any(part.startswith(".") for part in path.split("/")):
            continue
        if name.lower() == INDEX_FILENAME.lower() and folder:
            yield make_problem("nested-index", path)
        elif name.lower() == INDEX_FILENAME.lower() and name != INDEX_FILENAME:
            yield make_problem("two-indexes", INDEX_FILENAME, other=name)
        elif name.lower().endswith(".md") and is_sync_conflict(name):
            yield make_problem("sync-conflict", path)
