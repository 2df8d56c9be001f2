"""Write and Edit keep to the policy of the memory they write to, and to a person's confirmation."""

from agentic_memory.guards import WritePolicy
from agentic_memory.tools.guarding import note_confirmed, note_policy, policy_for

LONG = "---\nname: Log\ndescription: What happened\n---\n" + "".join(
    f"{number}: it went well.\n" for number in range(99)
)
SHORT = "---\nname: Log\ndescription: What happened\n---\n0: it went well.\n"


async def test_a_rewrite_that_was_cut_off_is_refused_and_the_file_stays(place):
    place.plant("log.md", LONG.encode())
    await place.read("log.md")
    answer = await place.write("log.md", SHORT)
    assert not answer.ok
    assert "of the text" in answer.text
    assert await place.bytes_of("log.md") == LONG.encode()


async def test_an_edit_whose_new_text_was_cut_off_is_refused(place):
    place.plant("log.md", LONG.encode())
    await place.read("log.md")
    body = LONG.partition("---\n0")[2]
    answer = await place.edit("log.md", body, ": it went")
    assert not answer.ok
    assert await place.bytes_of("log.md") == LONG.encode()


async def test_text_that_edit_is_told_to_take_out_goes(place):
    place.plant("log.md", LONG.encode())
    await place.read("log.md")
    assert (await place.edit("log.md", LONG.removeprefix(SHORT), "")).ok
    assert await place.bytes_of("log.md") == SHORT.encode()


async def test_a_plain_file_is_measured_only_inside_a_known_memory(place):
    text = "".join(f"{number}: it went well.\n" for number in range(99))
    for name in ("notes.md", "code.py"):
        place.plant(name, text.encode())
        await place.read(name)
        assert (await place.write(name, "0: it went well.\n")).ok
    note_policy(place.state, place.root, WritePolicy())
    place.plant("notes.md", text.encode())
    await place.read("notes.md")
    assert not (await place.write("notes.md", "0: it went well.\n")).ok


async def test_an_index_is_known_by_its_name(place):
    place.plant("MEMORY.md", "".join(f"- [{n}]({n}.md)\n" for n in range(28)).encode())
    await place.read("MEMORY.md")
    answer = await place.write("MEMORY.md", "".join(f"- [{n}]({n}.md)\n" for n in range(5)))
    assert "23 of 28 entries" in answer.text


async def test_a_policy_that_allows_losses_is_kept_to(place):
    note_policy(place.state, place.root, WritePolicy(losses="allow"))
    place.plant("log.md", LONG.encode())
    await place.read("log.md")
    assert (await place.write("log.md", SHORT)).ok


async def test_a_confirmation_lets_one_write_pass_once(place):
    note_policy(place.state, place.root, WritePolicy(losses="ask"))
    call = {"file_path": place.path("log.md"), "content": SHORT}
    for confirmed in (False, True, False):
        place.plant("log.md", LONG.encode())
        await place.read("log.md")
        if confirmed:
            note_confirmed(place.state, call)
        assert (await place.write("log.md", SHORT)).ok is confirmed


async def test_a_confirmation_counts_for_nothing_where_the_policy_is_to_refuse(place):
    note_policy(place.state, place.root, WritePolicy())
    place.plant("log.md", LONG.encode())
    await place.read("log.md")
    note_confirmed(place.state, {"file_path": place.path("log.md"), "content": SHORT})
    assert not (await place.write("log.md", SHORT)).ok


def test_a_policy_holds_below_its_directory_however_the_path_is_spelled(memory_place):
    state = memory_place.state
    note_policy(state, "/srv/app/Memory", WritePolicy(losses="ask"))
    assert policy_for(state, "/srv/app/Memory/a.md") == WritePolicy(losses="ask")
    assert policy_for(state, "/srv/app/x/../Memory//b/../a.md") == WritePolicy(losses="ask")
    assert policy_for(state, "/srv/app/Memory/../secret.md") is None
    assert policy_for(state, "/srv/app/Memory2/a.md") is None


def test_a_state_that_holds_nonsense_is_no_policy(memory_place):
    state = memory_place.state
    state.middle_context["agentic_memory.policies"] = ["?"]
    assert policy_for(state, "/m/a.md") is None
    state.middle_context["agentic_memory.policies"] = {"/m": {"unheard": "of"}}
    assert policy_for(state, "/m/a.md") == WritePolicy()
