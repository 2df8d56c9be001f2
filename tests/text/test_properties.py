"""What holds for any bytes, any value and any index."""

import re

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from text.shapes import SHAPES

from agentic_memory import document as document_module
from agentic_memory import index as index_module
from agentic_memory.check import is_memory_path
from agentic_memory.document import edit_body, edit_field, memory_filename, parse_document, render_document
from agentic_memory.errors import InvalidMemory
from agentic_memory.index import add_entry, change_entry, drop_entry, fit_index, parse_index, render_entry
from agentic_memory.lines import one_line, split_lines
from agentic_memory.tokens import cut_to_tokens, estimate_tokens

quick = settings(max_examples=100, deadline=None)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
awkward = st.text(st.sampled_from("ab: #-'\"\\|>[]{}&*!%@`,?~=.0\t\n\r：—部é\u2028\x85\ufeff🎉"), max_size=30)
value = st.one_of(text, awkward)
key = st.sampled_from(["name", "description", "type", "owner", "metadata", "标题", "no"])
written = st.one_of(
    value,
    value.map(lambda v: '"' + v.replace('"', "") + '"'),
    value.map(lambda v: "'" + v.replace("'", "") + "'"),
    st.lists(value.map(one_line), max_size=3).map(lambda lines: "".join(f"\n  {line}" for line in ["|", *lines])[3:]),
    st.just("\n  type: user\n  k: v"),
)
header_line = st.one_of(
    st.tuples(key, st.sampled_from([": ", ":", ":  ", "： ", ":\t", " : "]), written).map("".join), awkward
)
file_text = st.tuples(
    st.sampled_from(["", "", "", "\ufeff", "\n", "<!-- c -->\n"]),
    st.sampled_from(["---\n", "---\n", "----  \n", ""]),
    st.lists(header_line, max_size=6).map(lambda lines: "".join(f"{line}\n" for line in lines)),
    st.sampled_from(["---\n", "---\n\n", "...\n", "---", "", "\n# Title\n"]),
    value,
).map("".join)
ending = st.sampled_from(["\n", "\r\n", "\r"])
file_bytes = st.one_of(
    st.binary(max_size=200),
    st.tuples(file_text, ending, st.sampled_from(["utf-8", "utf-16", "gb18030"])).map(
        lambda parts: parts[0].replace("\n", parts[1]).encode(parts[2])
    ),
    st.tuples(file_text, st.binary(min_size=1, max_size=3)).map(lambda parts: parts[0].encode() + parts[1]),
    st.sampled_from([shape.data for shape in SHAPES.values() if len(shape.data) < 5000]),
)


@settings(quick, max_examples=250)
@given(file_bytes)
def test_any_bytes_are_read_and_none_is_lost(data: bytes) -> None:
    document = parse_document(data, filename="a.md")
    assert document.encode(document.text) == data
    assert document.text.endswith(document.body)
    assert all(problem.file == "a.md" and (problem.line or 1) >= 1 for problem in document.problems)


simple_line = st.one_of(
    st.tuples(
        st.sampled_from(["", "", "  "]), key, st.sampled_from([": ", ":", ":  "]), written, st.sampled_from(["", " "])
    ).map("".join),
    st.sampled_from(["metadata:", "  type: user", "  type: x", "    k: v", "owner: ", "name: a", "metadata: "]),
)


@settings(quick, max_examples=400)
@given(
    st.lists(simple_line, min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\nx", "---\n", "x\n"]),
)
@example(["name: a\x7f"], "\n", "")
@example(["name: ...", "x: <<"], "\n", "")
def test_the_quick_reading_agrees_with_yaml(lines: list[str], end: str, body: str) -> None:
    whole = f"---{end}{''.join(line + end for line in lines)}---{end}{body}"
    quickly = document_module._read_simple(whole)
    if quickly is None:
        return
    slowly = document_module._read(whole, "utf-8", "", [])
    assert quickly == slowly
    loaded = yaml.load(whole.split("---" + end)[1], Loader=yaml.BaseLoader)
    assert dict(quickly.fields) == {k: v for k, v in loaded.items() if isinstance(v, str)}


def test_the_quick_reading_is_taken_for_the_usual_files() -> None:
    usual = [
        "usual",
        "type under metadata",
        "type under metadata, blanks after the key",
        "CR LF, simple",
        "empty description",
    ]
    assert [name for name in usual if document_module._read_simple(SHAPES[name].data.decode()) is None] == []


@settings(quick, max_examples=300)
@given(
    st.one_of(value, file_text),
    st.one_of(value, file_text),
    st.one_of(value, file_text),
    st.one_of(st.just("body"), file_text),
)
@example("a", "b: c", "user", "")
@example("a ", "b", "user ", "\n\n---\n")
@example("a", "b #c", "u", "---\nname: x\n---\n")
@example("\xa0a", "b\u3000", "-", "\r\n---")
def test_the_quickest_reading_agrees_with_the_quick_one(name: str, description: str, kind: str, body: str) -> None:
    whole = f"---\nname: {name}\ndescription: {description}\ntype: {kind}\n---\n{body}"
    quickest = document_module._read_usual(whole)
    if quickest is not None:
        assert quickest == document_module._read_simple(whole)


def test_the_quickest_reading_is_taken_for_what_is_rendered() -> None:
    data = render_document(name="User profile", description="When 你 ask", type="user", content="Lives in Hangzhou.")
    assert document_module._read_usual(data.decode()) == parse_document(data)


@settings(quick, max_examples=150)
@given(
    value,
    value,
    value,
    st.one_of(value, file_text),
    st.dictionaries(st.sampled_from(["owner", "标题", "no", "2024-01-31"]), value),
)
def test_what_is_rendered_reads_back(
    name: str, description: str, kind: str, content: str, extra: dict[str, str]
) -> None:
    content = content.replace("\0", "")
    data = render_document(name=name, description=description, type=kind, content=content, extra=extra)
    document = parse_document(data)
    given_fields = {"name": name, "description": description, "type": kind, **extra}
    assert dict(document.fields) == {field: one_line(given_value) for field, given_value in given_fields.items()}
    assert document.body == (content.rstrip("\r\n") + "\n" if content.rstrip("\r\n") else "")
    strict = yaml.safe_load(document.text[slice(*document.header or ())])
    assert {str(field): read or "" for field, read in strict.items()} == dict(document.fields)


@settings(quick, max_examples=250)
@given(file_bytes, key, value)
def test_an_edit_reads_back_and_changes_nothing_else(data: bytes, field: str, new: str) -> None:
    document = parse_document(data)
    try:
        edited = parse_document(edit_field(document, field, new))
    except InvalidMemory:
        return
    shown = {"name": edited.name, "description": edited.description, "type": edited.type}.get(
        field, edited.fields.get(field, "")
    )
    before = {"name": document.name, "description": document.description, "type": document.type}.get(
        field, document.fields.get(field, "")
    )
    assert shown in {one_line(new), before if before == new else one_line(new)}
    assert edited.body == document.body
    assert {k: v for k, v in edited.fields.items() if k != field} == {
        k: v for k, v in document.fields.items() if k != field
    }


@quick
@given(
    st.sampled_from([shape.data for shape in SHAPES.values() if len(shape.data) < 5000 and b"\0" not in shape.data]),
    key,
    value,
)
def test_known_shapes_take_any_value(data: bytes, field: str, new: str) -> None:
    document = parse_document(data)
    if field == "metadata" or b'{"name"' in data:
        return
    edited = parse_document(edit_field(document, field, new))
    assert (edited.type if field == "type" else edited.fields.get(field, "")) == one_line(new)


@quick
@given(file_bytes, value)
def test_a_new_body_reads_back(data: bytes, body: str) -> None:
    document = parse_document(data)
    if document.encoding == "binary" or document.header is None:
        return
    body = body.replace("\0", "").replace("\r", "")
    changed = edit_body(document, body)
    assert changed.startswith(document.encode(document.text[: document.body_start]))
    if document.encoding == "utf-8":
        assert parse_document(changed).body.replace("\r\n", "\n").replace("\r", "\n") == body


entry_parts = st.tuples(value, value.map(memory_filename), value)
index_line = st.one_of(
    entry_parts.map(lambda parts: render_entry(title=parts[0], filename=parts[1], hook=parts[2])),
    st.sampled_from(
        ["# Memory", "", "free text", "```", "* [A](a.md)", "- b.md: hook", "| [T](t.md) | x |", "  more", "<!-- c"]
    ),
    awkward.map(one_line),
)
index_text = st.tuples(st.lists(index_line, max_size=8), ending, st.booleans()).map(
    lambda parts: parts[1].join(parts[0]) + (parts[1] if parts[2] and parts[0] else "")
)


@settings(quick, max_examples=150)
@given(index_text, entry_parts)
def test_an_entry_added_and_dropped_leaves_no_trace(before: str, parts: tuple[str, str, str]) -> None:
    title, filename, hook = parts
    added = add_entry(before, title=title, filename=filename, hook=hook)
    if parse_index(before).find(filename) is not None:
        assert added == before
        return
    entry = parse_index(added).find(filename)
    assert entry is not None
    assert parse_index(added).entries != parse_index(before).entries
    assert drop_entry(added, filename) == before


@settings(quick, max_examples=150)
@given(entry_parts)
def test_a_rendered_entry_is_one_line_that_reads_back(parts: tuple[str, str, str]) -> None:
    title, filename, hook = parts
    line = render_entry(title=title, filename=filename, hook=hook)
    assert len(split_lines(line)) == 1
    (entry,) = parse_index(line).entries
    assert entry.filename == filename
    assert len(line) <= 150 or len(filename) > 100
    if len(line) < 150:
        assert entry.title == (one_line(title) or filename[:-3])


dashed = st.tuples(awkward, awkward).map(lambda parts: f"- [T]({parts[0]}.md) — {parts[1]}")
titled = awkward.map(lambda title: f"- [{title}](memory.md) — b |")


@settings(quick, max_examples=300)
@given(st.one_of(index_line, dashed, titled))
def test_the_usual_entry_is_read_like_any_other(line: str) -> None:
    for whole in split_lines(line):
        assert index_module._find_spots(whole, 1) == index_module._find_any_spots(whole, 1)


@settings(quick, max_examples=150)
@given(
    index_text,
    st.one_of(st.none(), value),
    st.one_of(st.none(), value),
    st.one_of(st.none(), value.map(memory_filename)),
)
def test_a_change_touches_one_line_only(before: str, title: str | None, hook: str | None, new: str | None) -> None:
    index = parse_index(before)
    if not index.entries:
        assert change_entry(before, "a.md", title=title, hook=hook, new_filename=new) == before
        return
    entry = index.entries[0]
    after = change_entry(before, entry.filename, title=title, hook=hook, new_filename=new)
    old, changed = split_lines(before), split_lines(after)
    assert len(old) == len(changed)
    same_file = {other.line for other in index.entries if other.filename == entry.filename}
    for number, (one, other) in enumerate(zip(old, changed, strict=True), 1):
        assert one == other or number == entry.line or (new is not None and number in same_file)
    assert parse_index(after).entries[0].filename == (new or entry.filename)
    if title is None and hook is None and new is None:
        assert after == before


@settings(quick, max_examples=150)
@given(index_text, st.integers(-1, 120))
def test_a_fitted_index_is_whole_lines_within_the_budget(before: str, max_tokens: int) -> None:
    index = parse_index(before)
    fitted = fit_index(index, max_tokens=max_tokens)
    assert estimate_tokens(fitted.text) <= max(max_tokens, 0)
    if not fitted.cut_lines:
        assert fitted.text == before
        assert not fitted.cut
        return
    cut = {line for first, last in fitted.cut_lines for line in range(first, last + 1)}
    kept = [line for number, line in enumerate(split_lines(before), 1) if number not in cut]
    shown = [line for line in split_lines(fitted.text) if line.rstrip("\r\n") != "<<<TRUNCATED>>>"]
    assert shown == kept
    assert fitted.cut == tuple(entry for entry in index.entries if entry.line in cut)


@quick
@given(value, st.integers(-1, 30))
def test_a_cut_text_is_the_longest_prefix_of_lines_that_fits(whole: str, max_tokens: int) -> None:
    cut = cut_to_tokens(whole, max_tokens)
    assert whole.startswith(cut)
    assert estimate_tokens(cut) <= max(max_tokens, 0)
    lines = split_lines(whole)
    prefixes = ["".join(lines[:count]) for count in range(len(lines) + 1)]
    best = max(
        (prefix for prefix in prefixes if max_tokens > 0 and estimate_tokens(prefix) <= max_tokens), key=len, default=""
    )
    if best:
        assert cut == best
    elif max_tokens > 0:
        assert estimate_tokens(whole[: len(cut) + 1]) > max_tokens or cut == whole


@quick
@given(value)
def test_any_name_gives_a_file_name_that_is_a_memory(name: str) -> None:
    filename = memory_filename(name)
    assert is_memory_path(filename)
    assert not re.search(r"[/\\\0\r\n]", filename)
    assert len(filename.encode()) <= 255
    assert memory_filename(filename) == filename
