"""proposals, accept, reject: what a person sees, may edit, and finds on disk afterwards."""

import asyncio
import json

import pytest
from teaching import decisions, facts, model, talk

from agentic_memory.store import MemoryStore
from agentic_memory.writeback.learner import Learner


@pytest.fixture
def learn(tmp_path, memory):
    def learn(*answers, review="propose"):
        async def run():
            store = MemoryStore(workdir=str(tmp_path))
            return await Learner(store, model(*answers), review=review).learn(talk())

        return asyncio.run(run())

    return learn


@pytest.fixture
def added(learn):
    """A proposal for a new memory; its id."""
    report = learn(facts("Likes Longjing tea."), decisions({"operation": "ADD", "fact": 1, "reason": "said so"}))
    assert report.status == "proposed"
    return report.proposed[0].removeprefix(".proposals/").removesuffix(".md")


@pytest.fixture
def updated(learn, memory):
    """A proposal to change the profile, which a person wrote; its id."""

    def update(call):
        line = next(line for line in call.text.splitlines() if 'title="Profile"' in line)
        number = int(line.split('number="')[1].split('"')[0])
        return decisions({"operation": "UPDATE", "fact": 1, "memory": number, "replaces": "Lives in Hangzhou."})

    report = learn(facts("Lives in Lyon."), update)
    return report.proposed[0].removeprefix(".proposals/").removesuffix(".md")


def test_a_proposal_changes_nothing_until_it_is_accepted(run, memory, added):
    before = {path.name: path.read_bytes() for path in memory.glob("*.md")}
    out = run("proposals").out
    assert f"{added}  ADD new memory: Likes Longjing tea." in out
    assert "+Likes Longjing tea." in out
    assert "said so" in out
    assert {path.name: path.read_bytes() for path in memory.glob("*.md")} == before


def test_accept_writes_the_memory_its_line_and_takes_the_proposal_away(run, memory, added):
    ran = run("accept", added)
    assert ran.out == f"accepted {added}: likes_longjing_tea.md\n"
    assert "Likes Longjing tea." in (memory / "likes_longjing_tea.md").read_text()
    assert "](likes_longjing_tea.md)" in (memory / "MEMORY.md").read_text()
    assert run("proposals").err == "Nothing waits for you.\n"
    row = run("history", "likes_longjing_tea.md").out.split("\t")
    assert (row[2], row[4].strip()) == ("person", "accepted: Likes Longjing tea.")


def test_what_a_person_edits_in_a_proposal_is_what_is_accepted(run, memory, added):
    path = memory / ".proposals" / f"{added}.md"
    path.write_text(path.read_text().replace("Likes Longjing tea.", "Likes green tea."))
    run("accept", added)
    assert "Likes green tea." in next(memory.glob("likes_*.md")).read_text()


def test_accepting_a_change_of_what_a_person_wrote_changes_only_that(run, memory, updated):
    profile = memory / "user_profile.md"
    before = profile.read_text()
    assert "-Lives in Hangzhou." in run("proposals").out
    assert run("accept", updated).code == 0
    assert profile.read_text() == before.replace("Lives in Hangzhou.", "Lives in Lyon.")


def test_a_memory_that_changed_since_is_merged(run, memory, updated):
    profile = memory / "user_profile.md"
    profile.write_text(profile.read_text().replace("mood: calm", "mood: happy"))
    assert run("accept", updated).code == 0
    text = profile.read_text()
    assert "mood: happy" in text
    assert "Lives in Lyon." in text


def test_the_same_lines_changed_by_hand_refuse_the_proposal(run, memory, updated):
    profile = memory / "user_profile.md"
    profile.write_text(profile.read_text().replace("Lives in Hangzhou.", "Lives in Rome."))
    ran = run("accept", updated)
    assert ran.code == 1
    assert "Lives in Rome." in profile.read_text()
    assert updated in run("proposals").out


def test_reject_moves_the_proposal_to_the_trash(run, memory, added):
    ran = run("reject", added)
    assert ran.out.startswith(f"rejected {added}; it is now .trash/")
    assert "Longjing" in (memory / ran.out.split()[-1]).read_text()
    assert run("proposals").err == "Nothing waits for you.\n"


def test_what_a_model_may_not_do_itself_is_proposed(run, memory, learn):
    report = learn(facts("Has moved."), decisions({"operation": "DELETE", "memory": 1}), review="auto")
    assert len(report.proposed) == 1
    assert "to the trash:" in run("proposals").out
    (name,) = (path.stem for path in (memory / ".proposals").iterdir())
    count = len(list(memory.rglob("*.md")))
    assert run("accept", name).code == 0
    assert len(list((memory / ".trash").rglob("*.md"))) == 1
    assert len(list(memory.rglob("*.md"))) == count - 1


def test_the_same_proposal_twice_is_one_file(memory, learn):
    for _ in range(2):
        learn(facts("Likes tea."), decisions({"operation": "ADD", "fact": 1}))
    assert len(list((memory / ".proposals").iterdir())) == 1


def test_proposals_as_json(run, added):
    (proposal,) = json.loads(run("proposals", "--json").out)
    assert (proposal["id"], proposal["operation"], proposal["reason"]) == (added, "ADD", "said so")
    assert "+Likes Longjing tea." in proposal["diff"]


@pytest.mark.parametrize("command", ["accept", "reject"])
@pytest.mark.parametrize("name", ["0123456789ab", "../MEMORY", ""])
def test_an_unknown_proposal_is_an_error(run, memory, command, name):
    ran = run(command, name)
    assert ran.code == 1
    assert "proposal" in ran.err


def test_a_proposal_whose_header_was_broken_is_told_of_and_can_be_rejected(run, memory, added):
    (memory / ".proposals" / f"{added}.md").write_text("hello")
    assert "cannot be read" in run("proposals").err
    assert run("accept", added).code == 2
    assert run("reject", added).code == 0


def test_status_tells_of_turns_that_could_not_be_learnt_and_of_proposals(run, memory, learn, added):
    assert learn({}, {}).status == "waiting"
    assert "1 turns waiting: " in run("status").out
    assert "1 proposals; see agentic-memory proposals" in run("status").out
    learning = json.loads(run("status", "--json").out)["learning"]
    assert (len(learning["waiting"]), learning["failed"], learning["proposals"]) == (1, [], 1)


def test_status_without_write_back_says_that_nothing_waits(run, memory):
    assert "nothing waits" in run("status").out
