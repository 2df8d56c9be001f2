"""What an agent has read is remembered in its own state."""

import json

import pytest
from agentscope.state import AgentState

from agentic_memory.tools.reads import MAX_READS, READS_KEY, forget_read, known_version, note_read


def test_a_file_never_shown_has_no_known_version() -> None:
    assert known_version(AgentState(), "/m/a.md") is None


def test_the_last_version_shown_is_the_known_one() -> None:
    state = AgentState()
    note_read(state, "/m/a.md", "1" * 64)
    note_read(state, "/m/a.md", "2" * 64)
    assert known_version(state, "/m/a.md") == "2" * 64


@pytest.mark.parametrize("spelling", ["/m/a.md", "/m//a.md", "/m/./a.md", "/m/x/../a.md", "//m/a.md", "///m/a.md"])
def test_a_path_is_known_however_it_is_spelled(spelling: str) -> None:
    state = AgentState()
    note_read(state, spelling, "1" * 64)
    assert known_version(state, "/m/a.md") == "1" * 64


def test_a_forgotten_file_is_unknown_and_the_others_stay() -> None:
    state = AgentState()
    note_read(state, "/m/a.md", "1" * 64)
    note_read(state, "/m/b.md", "2" * 64)
    forget_read(state, "/m/./a.md")
    forget_read(state, "/m/never.md")
    assert known_version(state, "/m/a.md") is None
    assert known_version(state, "/m/b.md") == "2" * 64


def test_reads_survive_saving_and_loading_the_session() -> None:
    state = AgentState()
    note_read(state, "/m/a.md", "1" * 64)
    loaded = AgentState.model_validate(json.loads(state.model_dump_json()))
    assert known_version(loaded, "/m/a.md") == "1" * 64


def test_the_file_noted_longest_ago_is_forgotten_first() -> None:
    state = AgentState()
    for number in range(MAX_READS):
        note_read(state, f"/m/{number}.md", "1" * 64)
    note_read(state, "/m/0.md", "2" * 64)
    note_read(state, "/m/new.md", "3" * 64)
    assert known_version(state, "/m/0.md") == "2" * 64
    assert known_version(state, "/m/1.md") is None
    assert len(state.middle_context[READS_KEY]) == MAX_READS


@pytest.mark.parametrize("damage", [None, 3, "text", ["/m/a.md"]])
def test_a_damaged_record_counts_as_nothing_read(damage: object) -> None:
    state = AgentState(middle_context={READS_KEY: damage})
    assert known_version(state, "/m/a.md") is None
    forget_read(state, "/m/a.md")
    note_read(state, "/m/a.md", "1" * 64)
    assert known_version(state, "/m/a.md") == "1" * 64


def test_two_agents_do_not_share_what_they_read() -> None:
    one, other = AgentState(), AgentState()
    note_read(one, "/m/a.md", "1" * 64)
    assert known_version(other, "/m/a.md") is None
