"""A reply with its memory in an E2B sandbox, while the service fails it: through our backend, and through AgentScope's."""

import pytest

from faults import table
from faults.case import play_case, sample
from faults.conversation import calls_to_strike
from faults.sandboxes import FAULTS, AdaptedSandboxPlace, SandboxPlace, make_sandbox, sandboxes

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b

PLACES = {"E2B": SandboxPlace, "E2B, AgentScope's own backend adapted": AdaptedSandboxPlace}


@pytest.fixture(scope="module")
def sandbox(standin):
    yield from sandboxes(standin)


def cases():
    return [
        pytest.param(name, fault, call, id=f"{name}-{fault}-{call}")
        for name in PLACES
        for fault, call in sample(FAULTS, calls_to_strike(), everything=table.EVERYTHING)
    ]


@pytest.mark.parametrize(("name", "fault", "call"), cases())
async def test_a_failing_service_loses_nothing(standin, sandbox, name, fault, call):
    await standin.clear()
    if fault.lasting:
        sandbox = await make_sandbox(standin)
    place = PLACES[name](standin, sandbox)
    table.note(name, fault.name, call.name, await play_case(place, fault, call))
