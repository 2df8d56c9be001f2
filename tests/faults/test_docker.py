"""A reply with its memory in a container, while container, daemon or the way there fail it.

Through our backend on BusyBox, and through AgentScope's own, adapted, on Debian.
"""

import gc
import tempfile
import warnings
from pathlib import Path

import pytest
from docker_place import engine_host

from faults import table
from faults.case import play_case, sample
from faults.containers import (
    EXEC_FAULTS,
    HAPPEN,
    NEEDS_DISK,
    SHELL_FAULTS,
    AdaptedContainerPlace,
    ContainerPlace,
    run_container,
    run_wire,
)
from faults.conversation import Conversation, calls_to_strike, plant
from faults.upstream import play_upstream

pytest_plugins = ["docker_fixtures"]
pytestmark = [
    pytest.mark.docker,
    # When nobody listens, the docker SDK leaves the socket it tried open until it is collected.
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
]

OURS, ADAPTED = "Docker", "Docker, AgentScope's own backend adapted"


@pytest.fixture(scope="module")
def busybox(docker_client):
    yield from run_container(docker_client, "busybox")


@pytest.fixture(scope="module")
def debian(docker_client):
    yield from run_container(docker_client, "debian")


@pytest.fixture(scope="module")
def wire(docker_client):
    host = engine_host()
    if not host.startswith("unix://"):
        pytest.skip("the engine listens elsewhere than on this machine, so its connections cannot be cut here")
    with tempfile.TemporaryDirectory() as folder:  # short: the path of a unix socket has a limit of 108 bytes
        yield from run_wire(host, Path(folder) / "docker.sock")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def cases(faults, *, one_each=False):
    return sample(faults, calls_to_strike(), everything=table.EVERYTHING, one_each=one_each)


async def test_a_reply_without_a_fault_makes_the_calls_that_are_struck_and_remembers_in_three(busybox, wire):
    place = ContainerPlace(busybox, wire)
    await place.open()
    await plant(place.backend, place.workdir)
    conversation = Conversation(place.backend, place.workdir)
    before = place.backend.round_trips
    played = await conversation.reply()
    trips = place.backend.round_trips - before
    await place.close()
    assert all(answer.ok for answer in played.answers.values())
    names = conversation.tap.names
    assert names == [call.name for call in calls_to_strike() if call.index_is_there]
    assert trips == len(names), "a call is one crossing"
    assert sum(name.startswith(("Write", "Edit")) for name in names) <= 3, "a file and its entry, by the agent's tools"
    assert sum(name.startswith("add") for name in names) <= 3, "a file and its entry, by the store"


async def play(place, name, fault, call):
    await place.open()
    try:
        table.note_case(name, fault, call, await play_case(place, fault, call))
    finally:
        await place.close()


@pytest.mark.parametrize(("fault", "call"), cases([*HAPPEN, *SHELL_FAULTS]), ids=str)
async def test_a_failing_container_loses_nothing(busybox, wire, fault, call):
    await play(ContainerPlace(busybox, wire, on_disk=fault.name in NEEDS_DISK), OURS, fault, call)


@pytest.mark.parametrize(("fault", "call"), cases([*HAPPEN, *EXEC_FAULTS], one_each=True), ids=str)
async def test_a_failing_container_loses_nothing_through_agentscopes_own_backend(debian, wire, fault, call):
    await play(AdaptedContainerPlace(debian, wire, on_disk=fault.name in NEEDS_DISK), ADAPTED, fault, call)


# At the limit of processes it is a matter of chance whether its ``test -e`` may start; when not, MEMORY.md is emptied.
# A full disk does not matter to the first call, which only looks.
MEASURED = [fault for fault in HAPPEN if fault.name not in {"disk full", "no process left (PID limit)"}]


@pytest.mark.parametrize("fault", MEASURED, ids=str)
async def test_what_agentscopes_own_memory_becomes_under_the_same_fault(debian, wire, fault):
    place = AdaptedContainerPlace(debian, wire)
    await place.open()

    async def read_index():
        return (await place.read_back())["MEMORY.md"]

    try:
        table.note(OURS, fault.name, table.THEIRS, await play_upstream(place, fault, read_index))
    finally:
        await place.close()
