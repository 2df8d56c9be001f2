"""The cases. A subclass gives the fixture ``place`` and, where the place lacks something, says so in ``lacks``.

Each is a way in which text was lost, or shown wrongly, by a file memory in public use: an edit over somebody else's, a
rewrite from an old or shortened view, an encoding, a link.
"""

import asyncio
from dataclasses import dataclass, field

import pytest
from agentscope.agent import Agent
from agentscope.message import ToolResultState, UserMsg
from agentscope.permission import AdditionalWorkingDirectory, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from scripted import ScriptedModel, call_tool
from teaching import decisions, facts, model, talk

from agentic_memory import AgenticMemoryMiddleware, MemoryStore
from agentic_memory.backends import ABSENT, Backend, version_of
from agentic_memory.errors import AgenticMemoryError, Conflict, UnsafePath
from agentic_memory.operations import Forget
from agentic_memory.testing import Place
from agentic_memory.testing.place import Contract
from agentic_memory.tools import Edit, Read, Write
from agentic_memory.writeback.learner import Learner
from agentic_memory.writeback.proposals import list_proposals

PROFILE = (
    b"---\nname: Profile\ndescription: Who the user is.\ntype: user\n---\n\nLives in Hangzhou.\nDrinks green tea.\n"
)


@dataclass
class Hand:
    """An agent's hand: the three tools with the state of one session."""

    backend: Backend
    root: str
    state: AgentState = field(default_factory=AgentState)

    async def _call(self, tool, name, **arguments):
        chunk = await tool(file_path=f"{self.root}/{name}", **arguments, _agent_state=self.state)
        return chunk.state == ToolResultState.RUNNING, "".join(block.text for block in chunk.content)

    async def read(self, name):
        done, text = await self._call(Read(backend=self.backend), name)
        assert done, text
        return text

    async def write(self, name, content):
        return await self._call(Write(backend=self.backend), name, content=content)

    async def edit(self, name, old, new):
        return await self._call(Edit(backend=self.backend), name, old_string=old, new_string=new)


class Losses(Contract):
    """Ways of losing text, on one kind of place."""

    @pytest.fixture
    def hand(self, place: Place) -> Hand:
        return Hand(place.backend, place.root)

    @pytest.fixture
    def other(self, place: Place) -> Hand:
        return Hand(place.rival or place.backend, place.root)

    @pytest.fixture
    def store(self, place: Place) -> MemoryStore:
        return store_at(place, place.backend)

    # ------------------------------------------------------------------ several hands at once

    async def test_two_edits_of_one_path_in_one_turn_are_both_made(self, place, store):
        await store.add(name="Profile", description="Who.", type="user", content="tea: green\ncity: Hangzhou")
        path = place.path("profile.md")
        model = ScriptedModel(
            [
                call_tool("Read", file_path=path),
                [
                    call_tool("Edit", file_path=path, old_string="tea: green", new_string="tea: black"),
                    call_tool("Edit", file_path=path, old_string="city: Hangzhou", new_string="city: Suzhou"),
                ],
                "Done.",
            ],
            default_selection=[],
        )
        await reply(place, model, "Change both.")
        assert (await store.get("profile.md")).content.split("\n")[:2] == ["tea: black", "city: Suzhou"]

    async def test_two_sessions_that_append_a_line_both_keep_it(self, place, hand, other):
        await place.put({"log.md": PROFILE})
        for one in (hand, other):
            await one.read("log.md")
        text = PROFILE.decode()
        done = await asyncio.gather(
            hand.edit("log.md", "Lives in Hangzhou.\n", "Lives in Hangzhou.\nHas a cat.\n"),
            other.edit("log.md", "Drinks green tea.\n", "Drinks green tea.\nHas a dog.\n"),
        )
        assert [ok for ok, _ in done] == [True, True], done
        kept = await text_of(place, "log.md")
        assert "Has a cat.\n" in kept
        assert "Has a dog.\n" in kept
        assert all(line in kept for line in text.splitlines())

    async def test_two_sessions_that_append_at_the_same_place_lose_nothing_unnoticed(self, place, hand, other):
        await place.put({"log.md": PROFILE})
        for one in (hand, other):
            await one.read("log.md")
        said = {}
        for one, line in ((hand, "Has a cat.\n"), (other, "Has a dog.\n")):
            said[line] = await one.write("log.md", PROFILE.decode() + line)
        kept = await text_of(place, "log.md")
        for line, (ok, answer) in said.items():
            assert (line in kept) is ok, answer
            assert ok or line.strip() in answer  # who is refused is shown what stands there and what was meant

    async def test_what_another_tool_appended_between_load_and_replace_stays(self, place, hand):
        await place.put({"notes.md": PROFILE})
        await hand.read("notes.md")
        appended = b"".join(b"observation %03d of the other tool, kept\n" % number for number in range(190))
        assert len(appended) > 7_400
        await place.plant(place.path("notes.md"), PROFILE + appended)
        ok, answer = await hand.write("notes.md", PROFILE.decode().replace("Hangzhou", "Suzhou"))
        kept = await text_of(place, "notes.md")
        assert appended.decode() in kept
        assert ok is ("Suzhou" in kept), answer

    async def test_a_file_saved_between_the_read_and_the_approved_edit_keeps_what_was_saved(self, place, hand):
        await place.put({"a.md": PROFILE})
        await hand.read("a.md")
        await place.plant(place.path("a.md"), PROFILE + b"A line by hand.\n")  # while the person was asked
        ok, answer = await hand.edit("a.md", "Hangzhou", "Suzhou")
        assert ok, answer
        assert await bytes_of(place, "a.md") == PROFILE.replace(b"Hangzhou", b"Suzhou") + b"A line by hand.\n"

    async def test_the_same_line_saved_by_hand_stays_and_the_agent_is_shown_it(self, place, hand):
        await place.put({"a.md": PROFILE})
        await hand.read("a.md")
        by_hand = PROFILE.replace(b"Hangzhou", b"Ningbo")
        await place.plant(place.path("a.md"), by_hand)
        ok, answer = await hand.edit("a.md", "Lives in Hangzhou.", "Lives in Suzhou.")
        assert not ok
        assert "Ningbo" in answer
        assert await bytes_of(place, "a.md") == by_hand

    async def test_an_edit_from_a_view_that_shows_the_old_text_is_refused_not_guessed(self, place, hand):
        await place.put({"a.md": PROFILE})
        await hand.read("a.md")
        await place.plant(place.path("a.md"), PROFILE.replace(b"Drinks green tea.", b"Drinks coffee."))
        ok, answer = await hand.edit("a.md", "Drinks green tea.", "Drinks oolong.")
        assert not ok
        assert "coffee" in answer
        assert b"coffee" in await bytes_of(place, "a.md")

    async def test_a_touch_between_read_and_edit_is_no_change(self, place, hand):
        await place.put({"a.md": PROFILE})
        await hand.read("a.md")
        await place.touch(place.path("a.md"), seconds=1_900_000_000)
        ok, answer = await hand.edit("a.md", "Hangzhou", "Suzhou")
        assert ok, answer
        assert "changed since" not in answer

    async def test_a_program_that_updates_an_old_version_merges_or_is_refused(self, place, store):
        first = await store.add(name="Tea", description="Which tea.", type="user", content="one\ntwo\nthree\n")
        await place.plant(place.path("tea.md"), (await bytes_of(place, "tea.md")).replace(b"three", b"THREE"))
        await store.update("tea.md", content="ONE\ntwo\nthree\n", expected=first.version)
        assert (await store.get("tea.md")).content.split("\n")[:3] == ["ONE", "two", "THREE"]
        with pytest.raises(Conflict):
            await store.update("tea.md", content="one\ntwo\nanother three\n", expected=first.version)
        assert (await store.get("tea.md")).content.split("\n")[:3] == ["ONE", "two", "THREE"]

    # ------------------------------------------------------------------ shapes of text

    async def test_a_delimiter_with_blank_lines_around_it_is_text(self, place, hand, store):
        data = PROFILE + b"\n---\n\nAfter the rule.\n\n---\n\nThe end.\n"
        await place.put({"a.md": data})
        assert (await store.get("a.md")).content.endswith("\n---\n\nAfter the rule.\n\n---\n\nThe end.\n")
        await hand.read("a.md")
        ok, answer = await hand.edit("a.md", "After the rule.", "After that rule.")
        assert ok, answer
        await store.update("a.md", description="Who the user is, and more.")
        expected = data.replace(b"After the", b"After that").replace(b"user is.", b"user is, and more.")
        assert await bytes_of(place, "a.md") == expected

    async def test_an_old_index_of_sections_without_links_keeps_every_line(self, place, store):
        index = b"# Memory\n\n## People\nAlice likes tea.\n\n## Projects\n- the bridge, due in May\n"
        await place.put({"MEMORY.md": index})
        await store.add(name="Tea", description="Which tea.", type="user", content="Green.")
        await store.update("tea.md", name="Teas")
        await store.forget("tea.md")
        assert await bytes_of(place, "MEMORY.md") == index

    async def test_an_index_line_is_added_to_a_list_without_a_break_at_its_end(self, place, store):
        index = b"".join(b"- [Note %d](note_%d.md) - kept\n" % (n, n) for n in range(28)).rstrip(b"\n")
        await place.put({"MEMORY.md": index})
        await store.add(name="Tea", description="Which tea.", type="user", content="Green.")
        kept = await bytes_of(place, "MEMORY.md")
        assert kept.startswith(index + b"\n- [Tea](tea.md)")

    async def test_gbk_text_is_read_and_edited_as_gbk(self, place, hand, store):
        data = "---\nname: 用户\ndescription: 用户的喜好\ntype: user\n---\n\n用户喜欢绿茶。\n住在杭州。\n".encode("gbk")
        await place.put({"u.md": data})
        assert "用户喜欢绿茶" in (await store.get("u.md")).content
        await hand.read("u.md")
        ok, answer = await hand.edit("u.md", "绿茶", "红茶")
        assert ok, answer
        assert await bytes_of(place, "u.md") == data.replace("绿茶".encode("gbk"), "红茶".encode("gbk"))

    async def test_a_character_across_a_buffer_boundary_stays_whole(self, place, hand, store):
        body = "a" * 8190 + "가나다"
        await place.put({"k.md": body.encode()})
        assert (await store.get("k.md")).content == body
        await hand.read("k.md")
        ok, answer = await hand.edit("k.md", "나", "라")
        assert ok, answer
        assert (await bytes_of(place, "k.md")).decode() == "a" * 8190 + "가라다"

    async def test_line_endings_of_windows_stay_when_the_edit_has_those_of_unix(self, place, hand):
        await place.put({"w.md": b"zero\r\na\r\nb\r\nlast\r\n"})
        await hand.read("w.md")
        ok, answer = await hand.edit("w.md", "a\nb\n", "a\nbetween\nb\n")
        assert ok, answer
        assert await bytes_of(place, "w.md") == b"zero\r\na\r\nbetween\r\nb\r\nlast\r\n"

    async def test_a_header_blanked_by_a_rewrite_is_refused(self, place, hand, store):
        await place.put({"a.md": PROFILE})
        await hand.read("a.md")
        for content in (
            "---\nname:\ndescription:\ntype:\n---\n\nLives in Suzhou.\n",
            "Lives in Suzhou.\nDrinks green tea.\n",
        ):
            ok, answer = await hand.write("a.md", content)
            assert not ok
            assert "frontmatter" in answer
        assert await bytes_of(place, "a.md") == PROFILE

    async def test_names_that_differ_in_accents_encoding_are_never_mixed_up(self, place, store):
        self.needs("unicode forms")
        composed, decomposed = "caf\u00e9.md", "cafe\u0301.md"
        await place.put({composed: PROFILE, decomposed: PROFILE.replace(b"Hangzhou", b"Nice")})
        assert "Hangzhou" in (await store.get(composed)).content
        assert "Nice" in (await store.get(decomposed)).content
        await store.update(decomposed, content="Only this one.\n")
        assert await bytes_of(place, composed) == PROFILE
        assert "same-name" in {problem.code for problem in await store.check()}

    async def test_an_index_of_28_entries_is_not_rewritten_to_the_five_that_were_read_again(self, place, hand):
        lines = [f"- [Note {n}](note_{n}.md) - kept\n" for n in range(28)]
        await place.put({"MEMORY.md": "".join(lines).encode()})
        await hand.read("MEMORY.md")
        ok, answer = await hand.write("MEMORY.md", "".join(lines[:5]))
        assert not ok
        assert "23" in answer
        assert (await text_of(place, "MEMORY.md")).splitlines(keepends=True) == lines

    # ------------------------------------------------------------------ consolidation

    async def test_a_memory_consolidated_from_a_part_of_it_keeps_the_part_that_was_not_shown(self, store):
        paragraphs = [f"Fact {n} of the bridge, which nobody may lose: {'detail ' * 400}{n}." for n in range(20)]
        await store.add(name="Bridge", description="All about it.", type="project", content="\n\n".join(paragraphs))
        says = model(
            facts(
                {"type": "project", "title": "Bridge", "text": "The bridge opens in June 2026.", "when": "the bridge"}
            ),
            decisions({"operation": "UPDATE", "fact": 1, "memory": 1, "text": "The bridge opens in June 2026."}),
        )
        assert (await Learner(store, says).learn(talk("The bridge opens in June."))).status == "learned"
        kept = "\n".join(file.content for file in await store.get_all())
        assert all(paragraph in kept for paragraph in paragraphs)
        assert "June 2026" in kept
        shown = says.structured[1].text
        assert sum(paragraph in shown for paragraph in paragraphs) < len(paragraphs)  # or this would prove nothing

    async def test_a_line_added_by_hand_while_a_consolidation_runs_stays(self, place, store):
        await store.add(name="Tea", description="Which tea.", type="user", content="Likes green tea.\n\nHas a pot.\n")
        before = await bytes_of(place, "tea.md")

        decision = decisions(
            {"operation": "UPDATE", "fact": 1, "memory": 1, "replaces": "Likes green tea.", "text": "Likes oolong."}
        )

        async def decide_slowly(_):
            await place.plant(place.path("tea.md"), before + b"A line by hand.\n")
            return decision

        says = model(facts("Likes oolong tea."), decide_slowly, default_selection=decision)
        report = await Learner(store, says, rewrite_people=True).learn(talk())
        assert report.status == "learned"
        kept = await text_of(place, "tea.md")
        assert "A line by hand.\n" in kept
        assert "Likes oolong." in kept
        assert "Has a pot." in kept

    async def test_23_deletes_of_one_consolidation_are_one_undo_away(self, store):
        for n in range(23):
            await store.add(name=f"Note {n}", description=f"Read for {n}.", type="project", content=f"Fact {n}.")
        before = {file.filename: file.version for file in await store.get_all()}
        with store.acting_as(who="consolidation", why="nothing of it holds"):
            done = await store.apply([Forget(filename=name) for name in before])
        assert await store.get_all() == []
        assert len({outcome.filename for outcome in done.outcomes if outcome.filename.startswith(".trash/")}) == 23
        await store.undo(done.id)
        assert {file.filename: file.version for file in await store.get_all()} == before
        assert [problem.code for problem in await store.check() if problem.severity == "error"] == []

    async def test_what_a_consolidation_may_not_delete_by_itself_is_only_proposed(self, place, store):
        await place.put({"a.md": PROFILE})
        says = model(
            facts("Lives in Suzhou."),
            decisions({"operation": "DELETE", "memory": 1}, {"operation": "ADD", "fact": 1}),
        )
        await Learner(store, says).learn(talk("I live in Suzhou now."))
        assert await bytes_of(place, "a.md") == PROFILE
        assert [proposal.operation for proposal in (await list_proposals(store))[0]] == ["DELETE"]

    # ------------------------------------------------------------------ editors and links

    async def test_a_save_by_rename_as_vim_does_it_is_no_loss_and_its_files_no_memories(self, place, store, hand):
        await place.put({"a.md": PROFILE})
        await hand.read("a.md")
        saved = PROFILE + b"Saved in vim.\n"
        await place.plant(place.path(".a.md.swp"), b"b0VIM 9.0\x00")
        await place.plant(place.path("4913"), b"")
        await place.backend.move(place.path("a.md"), place.path("a.md~"), expected=version_of(PROFILE))
        await place.plant(place.path("a.md"), saved)
        await place.plant(place.path(".#b.md"), b"lock")
        assert [file.filename for file in await store.get_all()] == ["a.md"]
        ok, answer = await hand.edit("a.md", "Hangzhou", "Suzhou")
        assert ok, answer
        assert await bytes_of(place, "a.md") == saved.replace(b"Hangzhou", b"Suzhou")
        assert await bytes_of(place, "a.md~") == PROFILE

    async def test_a_symlinked_middle_directory_is_followed_inside_and_refused_outside(self, place, hand, store):
        self.needs("symlinks")
        await place.put({"real/a.md": PROFILE})
        await place.link(place.path("team"), "real")
        await place.plant(f"{place.outside}/secret.md", PROFILE)
        await place.link(place.path("away"), place.outside)
        await hand.read("team/a.md")
        ok, answer = await hand.edit("team/a.md", "Hangzhou", "Suzhou")
        assert ok, answer
        assert await bytes_of(place, "real/a.md") == PROFILE.replace(b"Hangzhou", b"Suzhou")
        with pytest.raises(UnsafePath):
            await store.get("away/secret.md")
        with pytest.raises(AgenticMemoryError):
            await store.update("away/secret.md", content="Stolen.\n")
        record = await place.backend.fetch(f"{place.outside}/secret.md")
        assert record is not ABSENT
        assert record.data == PROFILE

    async def test_removing_a_link_removes_the_link_only(self, place, store):
        self.needs("symlinks")
        await place.put({"real.md": PROFILE})
        await place.link(place.path("alias.md"), "real.md")
        trashed = await store.forget("alias.md")
        assert await bytes_of(place, trashed) == PROFILE
        assert [version.version for version in await store.history("alias.md")] == [None, version_of(PROFILE)]
        assert await bytes_of(place, "real.md") == PROFILE
        assert not await place.is_link(place.path("alias.md"))


def store_at(place: Place, backend: Backend) -> MemoryStore:
    """Return the memory at a place."""
    workdir, _, memory_dir = place.root.rpartition("/")
    return MemoryStore(workdir=workdir, memory_dir=memory_dir, backend=backend)


async def reply(place: Place, model: ScriptedModel, text: str) -> None:
    """Let an agent with our middleware and tools answer."""
    workdir, _, memory_dir = place.root.rpartition("/")
    backend = place.backend
    agent = Agent(
        name="assistant",
        system_prompt="You help.",
        model=model,
        toolkit=Toolkit(tools=[Read(backend=backend), Write(backend=backend), Edit(backend=backend)]),
        middlewares=[AgenticMemoryMiddleware(workdir=workdir, memory_dir=memory_dir, backend=backend)],
    )
    agent.state.permission_context.mode = PermissionMode.ACCEPT_EDITS
    agent.state.permission_context.working_directories[workdir] = AdditionalWorkingDirectory(
        path=workdir, source="test"
    )
    await agent.reply(UserMsg("user", text))


async def bytes_of(place: Place, name: str) -> bytes:
    """Return what a file holds."""
    record = await place.backend.fetch(place.path(name))
    assert record is not ABSENT, name
    assert record.data is not None
    return record.data


async def text_of(place: Place, name: str) -> str:
    """Return what a file holds, as text."""
    return (await bytes_of(place, name)).decode()
