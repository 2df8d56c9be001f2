"""What each operation does to the files: when it is refused, and what it leaves behind."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.backends import InMemoryBackend, Put
from agentic_memory.backends.values import ANY
from agentic_memory.document import parse_document
from agentic_memory.operations import Create, Forget, Rewrite
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.candidates import Candidate
from agentic_memory.writeback.decisions import Decision
from agentic_memory.writeback.plans import Plan, Rules, find_words, make_plan

EDITOR = "---\nname: Editor\ndescription: w\ntype: user\n---\n\nThe user lives in Hangzhou. The user likes Vim.\n\n- uses zsh\n"
FILES = {"editor.md": EDITOR, "home.md": "---\nname: Home\n---\n\nLives in Hangzhou.\n"}
EMACS = Candidate("user", "Editor", "The user no longer likes Vim.", "w")


async def snapshot_of(files):
    backend = InMemoryBackend()
    await backend.transact([Put(f"/w/Memory/{name}", text.encode(), ANY) for name, text in files.items()])
    return await MemoryStore(workdir="/w", backend=backend, history=False).load()


async def plan(*decisions, files=FILES, own=None, seen=None, **rules) -> tuple[Plan, dict[str, str | None]]:
    """Plan, and show the bodies of the files it would write; None for those in the trash."""
    snapshot = await snapshot_of(files)
    versions = {name: record.version for name, (record, _) in snapshot.documents.items()}
    made = make_plan(
        snapshot,
        decisions,
        Rules(
            own={name: versions[name] for name in (files if own is None else own)},
            seen={name: versions[name] for name in (files if seen is None else seen)},
            near=frozenset(files),
            day=date(2026, 3, 5),
            **rules,
        ),
    )
    after: dict[str, str | None] = {}
    for operation in made.operations:
        match operation:
            case Create():
                after[f"+{operation.name}"] = operation.content
            case Rewrite():
                assert operation.expected == versions[operation.filename]
                after[operation.filename] = parse_document(operation.data).body
            case Forget():
                assert operation.expected == versions[operation.filename]
                after[operation.filename] = None
    return made, after


def update(**fields) -> Decision:
    return Decision("UPDATE", fields.pop("fact", EMACS), "editor.md", **fields)


async def test_add_makes_a_file_with_all_that_the_fact_has() -> None:
    fact = Candidate(
        "feedback", "Short answers", "Answer in one sentence.", "Whenever answering", "**Why:** reads on a phone"
    )
    made, after = await plan(Decision("ADD", fact, reason="new"))
    assert after == {"+Short answers": "Answer in one sentence.\n\n**Why:** reads on a phone\n"}
    (create,) = made.operations
    assert (create.description, create.type) == ("Whenever answering", "feedback")
    assert [(one.operation, one.title, one.reason) for one in made.learned] == [("ADD", "Short answers", "new")]


@pytest.mark.parametrize("text", ["Lives in Hangzhou.", "- lives in **hangzhou**", "lives  in\nHangzhou"])
async def test_add_is_dropped_when_a_file_says_it_already(text) -> None:
    fact = Candidate("user", "Home", "Lives in Hangzhou", "w")
    files = {"home.md": f"---\nname: Home\n---\n\n{text}\n"} if "\n" not in text else FILES
    made, after = await plan(Decision("ADD", fact), files=files)
    assert after == {}
    assert "home.md says this already" in made.dropped[0]


async def test_the_same_fact_twice_in_one_turn_is_added_once() -> None:
    _, after = await plan(Decision("ADD", EMACS), Decision("ADD", EMACS), files={})
    assert len(after) == 1


async def test_update_takes_the_place_of_a_whole_sentence() -> None:
    _, after = await plan(update(replaces="The user likes Vim."))
    assert after["editor.md"] == "The user lives in Hangzhou. The user no longer likes Vim.\n\n- uses zsh\n"


async def test_update_takes_the_place_of_words_when_words_are_given() -> None:
    _, after = await plan(update(replaces="likes  vim", text="likes Emacs"))
    assert "The user likes Emacs.\n" in after["editor.md"]


async def test_update_of_a_part_of_a_sentence_without_words_keeps_the_rest_of_it() -> None:
    _, after = await plan(update(replaces="Vim"))
    assert after["editor.md"].startswith("The user lives in Hangzhou. The user likes Vim.\n")
    assert '2026-03-05: The user no longer likes Vim. (This takes the place of "Vim".)' in after["editor.md"]


async def test_update_of_words_that_are_not_there_is_added_below() -> None:
    _, after = await plan(update(replaces="The user likes Nano."))
    assert "The user likes Vim." in after["editor.md"]
    assert "The user no longer likes Vim. (This takes the place of" in after["editor.md"]


async def test_update_without_words_extends_a_list_as_a_list() -> None:
    _, after = await plan(update(fact=Candidate("user", "Shell", "uses tmux", "w")))
    assert after["editor.md"].endswith("- uses zsh\n- uses tmux\n")


async def test_update_adds_the_details_of_a_fact() -> None:
    _, after = await plan(update(fact=Candidate("user", "Shell", "Uses tmux.", "w", "**Why:** works on servers")))
    assert after["editor.md"].endswith("- Uses tmux.\n\n**Why:** works on servers\n")


async def test_text_a_person_wrote_is_extended_never_rewritten() -> None:
    made, after = await plan(update(replaces="The user likes Vim."), own=())
    assert after["editor.md"].startswith("The user lives in Hangzhou. The user likes Vim.\n\n- uses zsh\n")
    assert 'The user no longer likes Vim. (This takes the place of "The user likes Vim.".)' in after["editor.md"]
    assert made.for_people == ()


async def test_text_a_person_wrote_is_rewritten_when_policy_says_so() -> None:
    _, after = await plan(update(replaces="The user likes Vim."), own=(), rewrite_people=True)
    assert "The user likes Vim." not in after["editor.md"]


async def test_update_that_says_nothing_new_writes_nothing() -> None:
    made, after = await plan(update(fact=Candidate("user", "Shell", "Uses zsh.", "w")))
    assert after == {}
    assert "says this already" in made.dropped[0]


async def test_update_of_a_memory_that_is_gone_adds_the_fact() -> None:
    _, after = await plan(update(replaces="The user likes Vim."), files={"home.md": FILES["home.md"]})
    assert after == {"+Editor": "The user no longer likes Vim.\n"}


async def test_none_of_a_memory_that_is_gone_adds_the_fact() -> None:
    _, after = await plan(Decision("NONE", EMACS, "editor.md"), files={})
    assert after == {"+Editor": "The user no longer likes Vim.\n"}


async def test_none_writes_nothing() -> None:
    made, after = await plan(Decision("NONE", EMACS, "editor.md"))
    assert (after, made.dropped) == ({}, ())


async def test_two_updates_of_one_file_are_one_write() -> None:
    made, after = await plan(
        update(replaces="The user likes Vim."), update(fact=Candidate("user", "Shell", "uses tmux", "w"))
    )
    assert len(made.operations) == 1
    assert after["editor.md"].endswith("The user no longer likes Vim.\n\n- uses zsh\n- uses tmux\n")


async def test_delete_goes_to_the_trash() -> None:
    _, after = await plan(Decision("DELETE", None, "home.md"))
    assert after == {"home.md": None}


async def test_delete_of_words_leaves_the_rest() -> None:
    _, after = await plan(Decision("DELETE", None, "editor.md", replaces="uses zsh"))
    assert after == {"editor.md": "The user lives in Hangzhou. The user likes Vim.\n\n"}


async def test_delete_of_all_words_is_a_delete() -> None:
    _, after = await plan(Decision("DELETE", None, "home.md", replaces="Lives in Hangzhou."))
    assert after == {"home.md": None}


async def test_delete_of_words_that_are_not_there_is_dropped() -> None:
    made, after = await plan(Decision("DELETE", None, "home.md", replaces="Lives in Paris."))
    assert after == {}
    assert "does not have the words" in made.dropped[0]


@pytest.mark.parametrize(
    "decision", [Decision("DELETE", None, "home.md"), Decision("DELETE", None, "home.md", replaces="in")]
)
async def test_delete_of_what_a_person_wrote_is_left_to_a_person(decision) -> None:
    made, after = await plan(decision, own=())
    assert (after, made.for_people) == ({}, (decision,))


BOTH = "Lives in Hangzhou. The user lives in Hangzhou. The user likes Vim. Uses zsh."


async def test_merge_keeps_one_and_trashes_the_others() -> None:
    _, after = await plan(Decision("MERGE", None, "home.md", ("editor.md",), text=BOTH))
    assert after == {"home.md": f"{BOTH}\n", "editor.md": None}


async def test_merge_that_drops_words_is_refused() -> None:
    made, after = await plan(Decision("MERGE", None, "home.md", ("editor.md",), text="Lives in Hangzhou."))
    assert after == {}
    assert "of the words of editor.md" in made.dropped[0]


async def test_merge_of_a_memory_that_was_not_shown_whole_is_refused() -> None:
    made, after = await plan(Decision("MERGE", None, "home.md", ("editor.md",), text=BOTH), seen=("home.md",))
    assert after == {}
    assert "editor.md was not shown" in made.dropped[0]


async def test_merge_of_what_a_person_wrote_is_left_to_a_person() -> None:
    merge = Decision("MERGE", None, "home.md", ("editor.md",), text=BOTH)
    made, after = await plan(merge, own=("home.md",))
    assert (after, made.for_people) == ({}, (merge,))


async def test_merge_with_a_memory_that_is_gone_is_dropped() -> None:
    made, after = await plan(Decision("MERGE", None, "home.md", ("gone.md",), text=BOTH))
    assert after == {}
    assert "not there any more" in made.dropped[0]


@pytest.mark.parametrize(
    ("decision", "field"),
    [
        (Decision("EXPIRE", None, "home.md", until=date(2026, 4, 1)), ("expires", "2026-04-01")),
        (Decision("PIN", None, "home.md"), ("pinned", "true")),
        (Decision("LOCK", None, "home.md"), ("locked", "true")),
    ],
)
async def test_a_mark_is_one_line_of_the_header_also_in_what_a_person_wrote(decision, field) -> None:
    made, after = await plan(decision, own=())
    (rewrite,) = made.operations
    document = parse_document(rewrite.data)
    assert document.fields[field[0]] == field[1]
    assert after["home.md"] == "Lives in Hangzhou.\n"


@pytest.mark.parametrize("mark", ["pinned", "locked"])
@pytest.mark.parametrize(
    "decision",
    [
        Decision("DELETE", None, "home.md"),
        Decision("EXPIRE", None, "home.md", until=date(2026, 4, 1)),
        Decision("MERGE", None, "editor.md", ("home.md",), text=BOTH),
    ],
)
async def test_what_is_pinned_or_locked_stays(mark, decision) -> None:
    files = {**FILES, "home.md": f"---\nname: Home\n{mark}: yes\n---\n\nLives in Hangzhou.\n"}
    made, after = await plan(decision, files=files, rewrite_people=True)
    assert (after, made.for_people) == ({}, (decision,))


async def test_what_is_locked_is_not_extended_but_what_is_pinned_may_be() -> None:
    for mark, changed in (("locked", False), ("pinned", True)):
        files = {**FILES, "editor.md": EDITOR.replace("type: user", f"{mark}: true")}
        _, after = await plan(update(), files=files)
        assert bool(after) is changed


async def test_a_file_that_is_not_text_is_left_alone_and_said() -> None:
    snapshot = await snapshot_of({})
    assert make_plan(snapshot, [], Rules({}, {}, frozenset(), date(2026, 3, 5))) == Plan()
    backend = InMemoryBackend()
    await backend.replace("/w/Memory/editor.md", b"\x00\x01\xff", expected=ANY)
    snapshot = await MemoryStore(workdir="/w", backend=backend, history=False).load()
    made = make_plan(snapshot, [update()], Rules({}, {}, frozenset(), date(2026, 3, 5)))
    assert made.operations == ()
    assert "not text" in made.dropped[0]


@pytest.mark.parametrize(
    ("body", "words", "found"),
    [
        ("a likes\n  vim b", "likes vim", "likes\n  vim"),
        ("dislikes vim", "likes vim", None),
        ("likes vimperator", "likes vim", None),
        ("我喜欢绿茶", "喜欢绿茶", "喜欢绿茶"),
        ("a.b", "a.b", "a.b"),
        ("axb", "a.b", None),
        ("x", " ", None),
    ],
)
def test_words_are_found_whole_whatever_the_space_between(body, words, found) -> None:
    span = find_words(body, words)
    assert (None if span is None else body[slice(*span)]) == found


_sentences = st.lists(
    st.from_regex(r"[A-Z][a-z]{1,6} [a-z]{2,6} [a-z]{2,6}\.", fullmatch=True), min_size=1, max_size=5, unique=True
)


@given(_sentences, st.data())
async def test_an_update_loses_no_sentence_but_the_one_it_replaces(sentences, data) -> None:
    replaced = data.draw(st.sampled_from([*sentences, "Not there at all."]))
    own = data.draw(st.booleans())
    body = data.draw(st.sampled_from([" ", "\n", "\n\n", "\n- "])).join(sentences)
    files = {"editor.md": f"---\nname: E\n---\n\n{body}\n"}
    _, after = await plan(update(replaces=replaced), files=files, own=("editor.md",) if own else ())
    kept = [sentence for sentence in sentences if sentence != replaced or not own]
    assert all(sentence in after["editor.md"] for sentence in kept)
    assert EMACS.text in after["editor.md"]
