"""Every problem a memory can have: its code, how bad it is, what it says and what to do about it.

``agentic_memory.check`` explains the codes in one table.
"""

from types import MappingProxyType
from typing import Final, NamedTuple

from agentic_memory.values import Problem, Severity


class Kind(NamedTuple):
    """What all problems of one code share; message and fix are ``str.format`` templates."""

    severity: Severity
    message: str
    fix: str


KINDS: Final = MappingProxyType(
    {
        # one file: its bytes
        "binary": Kind("error", "holds NUL bytes, so it is not text", "restore it from a backup or delete it"),
        "git-crypt": Kind("error", "is encrypted by git-crypt", "run `git-crypt unlock` in the repository"),
        "not-utf8": Kind("warning", "holds a byte that is not UTF-8 ({byte})", "save the file as UTF-8"),
        "other-encoding": Kind("info", "is stored as {encoding}, which other tools may misread", "save it as UTF-8"),
        # one file: its frontmatter
        "no-frontmatter": Kind(
            "warning", "has no frontmatter, so no name and no description", "begin it with ---, name, description, ---"
        ),
        "frontmatter-not-first": Kind(
            "warning", "something stands before the frontmatter", "move the opening --- to the first line"
        ),
        "frontmatter-unterminated": Kind(
            "warning", "the frontmatter is not closed before the text begins", "put a line --- after the last field"
        ),
        "frontmatter-not-yaml": Kind(
            "warning", "the frontmatter is not YAML ({reason}); it was read line by line", "put the value in quotes"
        ),
        "frontmatter-refused": Kind(
            "warning",
            "the frontmatter holds {reason}, which is not expanded; it was read line by line",
            "put the value in quotes, or write it out",
        ),
        "frontmatter-too-long": Kind(
            "warning", "the frontmatter is longer than {limit} characters", "move the long text below the closing ---"
        ),
        "second-block": Kind("warning", "a second frontmatter block follows the first", "merge the two blocks"),
        "comment-in-value": Kind(
            "warning",
            "`{key}` holds ` #`, where YAML begins a comment; the whole line was read",
            "put the value in quotes",
        ),
        "duplicate-key": Kind("warning", "`{key}` stands here again; this one counts", "keep one of the lines"),
        "full-width-colon": Kind("warning", "`{key}` is followed by a full-width colon", "write `{key}: ` instead"),
        "missing-space": Kind("warning", "there is no space after `{key}:`", "write `{key}: ` instead"),
        # one file: what it says
        "missing-name": Kind("warning", "has no name", "add a line `name: ...` to its frontmatter"),
        "missing-description": Kind(
            "warning", "has no description, so it is hard to find", "add a line `description: ...` to its frontmatter"
        ),
        "missing-type": Kind("info", "has no type", "add a line `type: ...` to its frontmatter"),
        "topic-description": Kind(
            "info",
            "the description only names a topic ({description})",
            "say when to read the file: `When ...`, `Before ...`",
        ),
        "relative-date": Kind("info", "{text!r} is true on one day only", "write the date itself{proposal}"),
        "expired": Kind("info", "`{key}` was {date}", "set a later date, or forget the memory"),
        "expiry-no-date": Kind("info", "`{key}` is {value!r}, which is no date", "write it as 2026-12-31"),
        "same-text": Kind("info", "says {share} what {other} says", "compare the two and keep one"),
        "conflict-markers": Kind("error", "holds an unresolved merge conflict", "keep one side, delete the markers"),
        "invisible-characters": Kind(
            "warning",
            "holds characters that nobody sees but a model reads, on {count} lines from here on",
            "delete and type the line anew, or remove it if you do not know who wrote it",
        ),
        "secret": Kind(
            "warning",
            "holds what looks like a {kind}",
            "move it to a password store, name its place here, and change it at its source",
        ),
        "instruction-like": Kind(
            "warning",
            "reads like an order to a model ({kind})",
            "reword it as a fact, or remove it if you do not know who wrote it",
        ),
        "dangling-wikilink": Kind("info", "[[{target}]] names no memory", "correct the link, or write that memory"),
        # the index
        "index-missing": Kind("warning", "there is no index", "add one line per memory: `- [Title](file.md) — hook`"),
        "entry-without-file": Kind("warning", "the entry names {filename}, which is not there", "{advice}"),
        "duplicate-entry": Kind(
            "warning", "{filename} is listed again; line {first} lists it first", "keep one of the lines"
        ),
        "entry-too-long": Kind(
            "info", "the line has {length} characters", "shorten the hook so that it stays within {limit}"
        ),
        "text-in-index": Kind(
            "warning",
            "{tokens} tokens of text that name no file stand in the index, and so in every prompt",
            "move the text to a memory file, and leave a line `- [Title](file.md) — hook`",
        ),
        "index-over-budget": Kind(
            "warning",
            "the index takes about {tokens} tokens of {limit}; lines {lines} do not reach the agent",
            "shorten hooks, or merge and remove memories",
        ),
        "not-in-index": Kind("warning", "is not listed in MEMORY.md", "add a line `- [{title}]({target}) — ...`"),
        # the directory
        "two-indexes": Kind("warning", "there is also {other}; only MEMORY.md counts", "merge it into MEMORY.md"),
        "nested-index": Kind(
            "info", "an index below the top is not a memory", "merge it into the MEMORY.md at the top"
        ),
        "sync-conflict": Kind(
            "warning", "a copy left by a sync conflict is not a memory", "merge it into the original and delete it"
        ),
        "possible-copy": Kind("info", "looks like a copy of {other}", "compare the two and keep one"),
        "same-name": Kind(
            "warning",
            "differs from {other} only in case or in how its accents are encoded",
            "rename one of them: some file systems take them for one file",
        ),
    }
)


def make_problem(code: str, file: str, line: int | None = None, **details: object) -> Problem:
    """Return the problem of that code; ``details`` fill the blanks of its message and fix."""
    kind = KINDS[code]
    return Problem(
        code=code,
        file=file,
        line=line,
        message=kind.message.format(**details),
        fix=kind.fix.format(**details),
        severity=kind.severity,
    )
