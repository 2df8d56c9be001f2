"""A reply with its memory in an E2B sandbox, while the service fails it: through our backend, and through AgentScope's."""

import pytest
from anyio.to_thread import run_sync

from faults import table
from faults.case import play_case, sample
from faults.conversation import Conversation, calls_to_strike, plant
from faults.sandboxes import FAULTS, UPLOADS, AdaptedSandboxPlace, SandboxPlace, make_sandbox, sandboxes
from faults.upstream import play_upstream

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b

OURS, ADAPTED = "E2B", "E2B, AgentScope's own backend adapted"


@pytest.fixture(scope="module")
def sandbox(standin):
    yield from sandboxes(standin)


@pytest.fixture(autouse=True)
async def no_faults(standin):
    await standin.clear()


async def test_a_reply_without_a_fault_makes_the_calls_that_are_struck(standin, sandbox):
    place = SandboxPlace(standin, sandbox)
    await plant(place.backend, place.workdir)
    conversation = Conversation(place.backend, place.workdir)
    played = await conversation.reply()
    assert all(answer.ok for answer in played.answers.values())
    struck = [call.name for call in calls_to_strike() if call.index_is_there]
    assert conversation.tap.names == struck


async def play(place_class, name, standin, sandbox, fault, call):
    place = place_class(standin, await make_sandbox(standin) if fault.lasting else sandbox)
    table.note_case(name, fault, call, await play_case(place, fault, call))


@pytest.mark.parametrize(("fault", "call"), sample(FAULTS, calls_to_strike(), everything=table.EVERYTHING), ids=str)
async def test_a_failing_service_loses_nothing(standin, sandbox, fault, call):
    await play(SandboxPlace, OURS, standin, sandbox, fault, call)


@pytest.mark.parametrize(
    ("fault", "call"), sample(FAULTS, calls_to_strike(), everything=table.EVERYTHING, one_each=True), ids=str
)
async def test_a_failing_service_loses_nothing_through_agentscopes_own_backend(standin, sandbox, fault, call):
    await play(AdaptedSandboxPlace, ADAPTED, standin, sandbox, fault, call)


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.name not in UPLOADS and not fault.lasting], ids=str
)
async def test_what_agentscopes_own_memory_becomes_under_the_same_fault(standin, sandbox, fault):
    place = AdaptedSandboxPlace(standin, sandbox)

    async def read_index():
        return await run_sync((place.folder / "Memory/MEMORY.md").read_bytes)

    table.note(OURS, fault.name, table.THEIRS, await play_upstream(place, fault, read_index))
