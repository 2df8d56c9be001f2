"""What the offline model does next: rules from what it sees to a tool call or an answer.

Nothing is kept between calls. Each call looks at the whole conversation, works out how far the current request has
come from the tool results in it, and takes the next step; so it can be interrupted, resumed, or moved to another
process at any point.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from agentic_memory.offline.intent import Fact, Forget, Recall, Remember, parse_intent
from agentic_memory.offline.phrases import PHRASES, Phrases, bullet
from agentic_memory.offline.text import (
    MAX_WHOLE_FILE_LINES,
    add_entries,
    add_statements,
    drop_entry,
    matching_statements,
    plain_statement,
    remove_statements,
    render_entry,
    render_file,
    replacement_between,
    statements_of,
    withdraw_hook,
)
from agentic_memory.offline.view import INDEX, ToolUse, View
from agentic_memory.offline.words import language_of, rank

MAX_ATTEMPTS: Final = 2
"""How often one file is tried to be written anew, after reading what is there now; the same refusal twice ends it."""
MAX_FILES_READ: Final = 5
"""How many files are opened to answer one question."""
MAX_LINES_QUOTED: Final = 12
MAX_FAILURE_CHARACTERS: Final = 300

_TAG = re.compile(r"</?system-[a-z]+>")
_FILENAME = re.compile(r"[^\s`(]+\.md\b")
_ABSENT_WORDS = ("does not exist", "not found", "no such file", "no memory")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    name: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next: tool calls, or the answer that ends the reply."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A file is as it should be; ``changed`` tells whether this reply made it so, ``filename`` where a tool put it."""

    changed: bool = True
    filename: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A file cannot be brought there; ``reason`` is the tool's own word."""

    reason: str


Tools = Mapping[str, Mapping[str, Any]]
"""Offered tools: name -> JSON schema of its parameters."""


def next_step(view: View, tools: Tools) -> Step:
    """Return the next step for what the person said last."""
    say = PHRASES[language_of(view.text)]
    match parse_intent(view.text):
        case Remember(facts):
            return _remember(facts, view, tools, say) if facts else Step(say.save_what)
        case Forget(topic, everything=everything):
            if everything or not topic:
                return Step(say.forget_one if everything else say.forget_what)
            return _forget(topic, view, tools, say)
        case Recall(topic, everything=everything):
            return _recall(topic, view, tools, say, everything=everything)
        case _:
            return Step(f"{say.who} {say.commands}\n\n{_inventory(view, say)}")


# ---------------------------------------------------------------------- remember


def _remember(facts: Sequence[Fact], view: View, tools: Tools, say: Phrases) -> Step:
    files: dict[str, list[Fact]] = {}
    if "MemoryAdd" in tools:  # which names files itself, so a subject is known by its title
        facts = [replace(fact, filename=_home_of(fact, view)) for fact in facts]
    for fact in facts:
        files.setdefault(fact.filename, []).append(fact)
    if "MemoryAdd" in tools:
        states = {name: _add(name, held, view, tools) for name, held in files.items()}
        linked = [fact for name, held in files.items() if view.entry_of(name) for fact in held]
    elif "Write" not in tools:
        return Step(f"{say.not_saved} {say.no_tool}.")
    elif view.memory_dir is None:
        return Step(f"{say.not_saved} {say.no_directory}.")
    else:
        states = {name: _put(name, held, view, tools) for name, held in files.items()}
        linked = list(facts)
    if calls := [state for state in states.values() if isinstance(state, Call)]:
        return Step(calls=tuple(calls))
    kept = [fact for fact in linked if not isinstance(states[fact.filename], Failed)]
    index = _write_index(view, tools, kept) if kept and "Write" in tools and view.memory_dir else Done(changed=False)
    if isinstance(index, Call):
        return Step(calls=(index,))
    return Step(_remembered(files, states, index, say))


def _put(filename: str, facts: Sequence[Fact], view: View, tools: Tools) -> Call | Done | Failed:
    listed = view.entry_of(filename) is not None or filename in view.shown
    return _bring(
        view, tools, filename, lambda text: add_statements(text, facts), fresh=render_file(facts), listed=listed
    )


def _write_index(view: View, tools: Tools, facts: Sequence[Fact]) -> Call | Done | Failed:
    fresh = "\n".join(dict.fromkeys(render_entry(fact) for fact in facts)) + "\n"
    # Without an entry in sight the index may be empty or hold free text: only a Read can tell, and text must stay.
    known = view.index_text if view.entries else None
    return _bring(view, tools, INDEX, lambda text: add_entries(text, facts), fresh=fresh, listed=True, known=known)


def _add(filename: str, facts: Sequence[Fact], view: View, tools: Tools) -> Call | Done | Failed:
    """Store facts with ``MemoryAdd``; where the subject has a file already, extend that instead of adding another."""
    tried = [
        use
        for use in view.uses
        if use.name == "MemoryAdd" and facts[0].text in json.dumps(use.input, ensure_ascii=False)
    ]
    if tried and not tried[-1].failed:
        named = _FILENAME.search(tried[-1].output)
        return Done("Nothing was added" not in tried[-1].output, named[0] if named else "")
    can_edit = {"Read", "Edit"} <= tools.keys() and view.memory_dir is not None
    if can_edit and (view.entry_of(filename) or (tried and not tried[-1].denied)):
        return _put(filename, facts, view, tools)
    if tried:
        return Failed(tried[-1].output)
    first = facts[0]
    values = {
        "filename": filename,
        "file": filename,
        "name": first.title,
        "title": first.title,
        "description": first.hook,
        "type": first.type,
        "thinking": "The user asked for it.",
        "content": "\n".join(f"- {fact.text}" for fact in facts) if len(facts) > 1 else first.text,
    }
    arguments = _fill(tools["MemoryAdd"], values)
    if tools["MemoryAdd"].get("properties", {}).get("content", {}).get("type") == "array":
        arguments["content"] = [fact.text for fact in facts]
    return Call("MemoryAdd", arguments)


def _home_of(fact: Fact, view: View) -> str:
    return next((entry.filename for entry in view.entries if entry.title == fact.title), fact.filename)


def _remembered(
    files: Mapping[str, Sequence[Fact]],
    states: Mapping[str, Call | Done | Failed],
    index: Done | Failed,
    say: Phrases,
) -> str:
    parts = []
    for heading, changed in ((say.saved, True), (say.present, False)):
        lines = [
            f"{state.filename or name}{say.separator}{fact.text}"
            for name, state in states.items()
            if isinstance(state, Done) and state.changed is changed
            for fact in files[name]
        ]
        if lines:
            parts.append(f"{heading}\n{bullet(lines)}")
    failures = [
        f"{name}{say.separator}{_short(state.reason)}" for name, state in states.items() if isinstance(state, Failed)
    ]
    if isinstance(index, Failed):
        failures.append(f"{INDEX}{say.separator}{_short(index.reason)}")
    if failures:
        parts.append(f"{say.not_saved}\n{bullet(failures)}")
    return "\n\n".join(parts)


# ---------------------------------------------------------------------- forget


def _forget(topic: str, view: View, tools: Tools, say: Phrases) -> Step:
    began = [use for use in view.uses if use.path != view.path_of(INDEX) and (use.path or use.name == "MemoryForget")]
    candidates = rank(topic, _known_texts(view))
    if began:
        filename = _target_of(began[0], view)
    elif candidates:
        filename = candidates[0]
    else:
        return Step(f"{say.nothing_to_forget}\n\n{_inventory(view, say)}")
    if "MemoryForget" not in tools and (not {"Read", "Edit"} <= tools.keys() or view.memory_dir is None):
        return Step(f"{say.not_forgotten} {say.no_tool if view.memory_dir else say.no_directory}.")

    doomed: list[str] = []
    whole = True
    if "Read" in tools and view.memory_dir is not None:
        path = view.path_of(filename)
        reads = [use for use in view.uses if use.name == "Read" and use.path == path]
        if not reads:
            return Step(calls=(Call("Read", {"file_path": path}),))
        first = next((use for use in reads if not use.failed), None)
        if first is None:
            return Step(f"{say.not_forgotten}\n{bullet([f'{filename}{say.separator}{_short(reads[-1].output)}'])}")
        statements = statements_of(first.text)
        doomed = matching_statements(first.text, topic)
        if not doomed:
            if len(statements) > MAX_WHOLE_FILE_LINES:
                return Step(say.unclear_what.format(file=filename))
            doomed = statements
        whole = len(doomed) == len(statements)

    if whole and "MemoryForget" in tools:
        state: Call | Done | Failed = _drop_file(filename, view, tools)
        index: Call | Done | Failed = Done(changed=False)
    else:
        state = _bring(view, tools, filename, lambda text: _without(text, doomed))
        index = Done(changed=False)
        if isinstance(state, Done) and view.entry_of(filename):
            index = _bring(
                view,
                tools,
                INDEX,
                lambda text: drop_entry(text, filename) if whole else withdraw_hook(text, filename, doomed),
                known=view.index_text,
            )
    for pending in (state, index):
        if isinstance(pending, Call):
            return Step(calls=(pending,))
    failures = [
        f"{name}{say.separator}{_short(outcome.reason)}"
        for name, outcome in ((filename, state), (INDEX, index))
        if isinstance(outcome, Failed)
    ]
    if failures:
        return Step(f"{say.not_forgotten}\n{bullet(failures)}")
    lines = [f"{filename}{say.separator}{plain_statement(statement)}" for statement in doomed] or [filename]
    return Step(f"{say.forgot}\n{bullet(lines)}")


def _without(text: str, doomed: Sequence[str]) -> str:
    left = [statement for statement in doomed if statement in text.split("\n")]
    return remove_statements(text, left) if left else text


def _target_of(use: ToolUse, view: View) -> str:
    if use.path:
        return use.path.removeprefix(f"{view.memory_dir}/")
    return str(next(iter(use.input.values()), ""))


def _drop_file(filename: str, view: View, tools: Tools) -> Call | Done | Failed:
    tried = [use for use in view.uses if use.name == "MemoryForget"]
    if tried:
        return Failed(tried[-1].output) if tried[-1].failed else Done()
    return Call(
        "MemoryForget", _fill(tools["MemoryForget"], {"filename": filename, "file": filename, "file_path": filename})
    )


# ---------------------------------------------------------------------- recall


def _recall(topic: str, view: View, tools: Tools, say: Phrases, *, everything: bool) -> Step:
    known = _known_texts(view)
    names = list(known) if everything else rank(topic, known)
    if not everything:
        # What retrieval chose for this message counts even where no word is shared.
        names += [name for name in view.suggested if name not in names and not names]
    names = names[:MAX_FILES_READ]
    texts = {name: text for name in names if (text := view.shown.get(name) or view.read_text(name))}
    if "Read" in tools and view.memory_dir is not None:
        tried = {use.path for use in view.uses if use.name == "Read"}
        unread = [view.path_of(name) for name in names if name not in texts]
        if calls := tuple(Call("Read", {"file_path": path}) for path in unread if path not in tried):
            return Step(calls=calls)
    parts = []
    quotes = [line for name, text in texts.items() for line in _quote(name, text, "" if everything else topic, say)]
    if quotes:
        parts.append(f"{say.recalled}\n{bullet(quotes)}")
    hooks = [
        f"{entry.filename}{say.separator}{entry.title} — {entry.hook}"
        for entry in view.entries
        if entry.filename in names and entry.filename not in texts
    ]
    if hooks:
        parts.append(f"{say.mentioned}\n{bullet(hooks)}")
    failures = [
        f"{use.path.removeprefix(f'{view.memory_dir}/')}{say.separator}{_short(use.output)}"
        for use in view.uses
        if use.name == "Read" and use.failed
    ]
    if failures:
        parts.append(f"{say.unreadable}\n{bullet(failures)}")
    if not quotes and not hooks:
        empty = everything and not known
        parts.append(say.empty if empty else f"{say.unknown} {say.who}\n\n{_inventory(view, say)}")
    return Step("\n\n".join(parts))


def _quote(filename: str, text: str, topic: str, say: Phrases) -> list[str]:
    """Return lines that quote a memory file: those that speak of the topic, or all when none does."""
    statements = (matching_statements(text, topic) if topic else []) or statements_of(text)
    lines = [f"{filename}{say.separator}{plain_statement(statement)}" for statement in statements[:MAX_LINES_QUOTED]]
    if len(statements) > MAX_LINES_QUOTED:
        lines.append(f"{filename}{say.separator}… (+{len(statements) - MAX_LINES_QUOTED})")
    return lines


def _known_texts(view: View) -> dict[str, str]:
    """Return everything in sight about each memory file, as one text to match words against."""
    texts = {entry.filename: f"{entry.title} {entry.filename} {entry.hook}" for entry in view.entries}
    for name, text in view.shown.items():
        texts[name] = f"{texts.get(name, name)}\n{text}"
    return texts


def _inventory(view: View, say: Phrases) -> str:
    lines = [f"{entry.filename}{say.separator}{entry.title}" for entry in view.entries]
    lines += [name for name in view.shown if view.entry_of(name) is None]
    if not lines:
        return say.empty
    rest = [f"… (+{len(lines) - MAX_LINES_QUOTED})"] if len(lines) > MAX_LINES_QUOTED else []
    return f"{say.known}\n{bullet(lines[:MAX_LINES_QUOTED] + rest)}"


# ---------------------------------------------------------------------- one file


def _bring(
    view: View,
    tools: Tools,
    filename: str,
    amend: Callable[[str], str],
    *,
    fresh: str = "",
    listed: bool = True,
    known: str | None = None,
) -> Call | Done | Failed:
    """Return the next call that brings one file to where ``amend`` wants its text, or that it is there.

    Args:
        view: The conversation, with what was tried in this reply.
        tools: The tools offered.
        filename: The file, relative to the memory directory.
        amend: From the file's text to what it should be; the same text when there is nothing to do.
        fresh: The whole text when there is no such file; empty when a missing file is fine as it is.
        listed: Whether the file is thought to exist, so that it is read before it is written.
        known: Text of the file as shown already, so that it need not be read first.
    """
    path = view.path_of(filename)
    history = [use for use in view.uses if use.path == path]
    writes = [use for use in history if use.name in {"Write", "Edit"}]
    if writes and not writes[-1].failed:
        return Done()
    if history and history[-1].denied:
        return Failed(history[-1].output)
    if len(writes) > MAX_ATTEMPTS or (len(writes) > 1 and writes[-1].output == writes[-2].output):
        return Failed(writes[-1].output)
    if not history:
        if known is not None:
            return _amended(tools, path, known, amend, fresh)
        if listed and "Read" in tools:
            return Call("Read", {"file_path": path})
        return Call("Write", {"file_path": path, "content": fresh})
    last = history[-1]
    if last.name != "Read":
        return Call("Read", {"file_path": path}) if "Read" in tools else Failed(last.output)
    if not last.failed:
        return _amended(tools, path, last.text, amend, fresh)
    if any(word in last.output.lower() for word in _ABSENT_WORDS):
        return Call("Write", {"file_path": path, "content": fresh}) if fresh else Done(changed=False)
    return Failed(last.output)


def _amended(tools: Tools, path: str, text: str, amend: Callable[[str], str], fresh: str) -> Call | Done | Failed:
    if not text.strip():
        return Call("Write", {"file_path": path, "content": fresh}) if fresh else Done(changed=False)
    change = replacement_between(text, amend(text))
    if change is None:
        return Done(changed=False)
    if "Edit" in tools:
        return Call("Edit", {"file_path": path, "old_string": change.old, "new_string": change.new})
    return Call("Write", {"file_path": path, "content": amend(text)})


def _fill(parameters: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return the values that a tool's parameters have a place for, by name."""
    return {name: values[name] for name in parameters.get("properties", {}) if name in values}


def _short(text: str) -> str:
    text = " ".join(_TAG.sub("", text).split())
    return text if len(text) <= MAX_FAILURE_CHARACTERS else text[: MAX_FAILURE_CHARACTERS - 1] + "…"
