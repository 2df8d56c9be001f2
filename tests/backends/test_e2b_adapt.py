"""AgentScope's own E2B backend, adapted, keeps the same promises over the same service."""

from typing import ClassVar

import pytest
from agentscope.workspace import E2BWorkspace
from agentscope.workspace._e2b._e2b_backend import E2BBackend as AgentScopeBackend
from e2b import AsyncSandbox

from agentic_memory.backends.adapt import adapt
from agentic_memory.errors import BackendUnavailable
from agentic_memory.testing import BackendContract, Place

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b

HOME = "/home/user"
START = "POST /process.Process/Start"


class TestAdaptedE2BBackend(BackendContract):
    lacks: ClassVar = {"owners": "commands run as the sandbox's user, who may not give files away"}
    trips_per_call: ClassVar = {"snapshot": 1, "fetch": 1, "transact": 2}  # a request goes by file: it has no stdin
    many: ClassVar = 500

    @pytest.fixture
    async def place(self, contract_place: Place, e2b_sandbox: AsyncSandbox) -> Place:
        contract_place.backend = adapt(AgentScopeBackend(e2b_sandbox, HOME))
        return contract_place


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_failing_service_is_unavailable_and_never_empty(faults, local_sandbox, place, status):
    backend = adapt(AgentScopeBackend(local_sandbox, HOME))
    await backend.write_file(f"{place}/MEMORY.md", b"- [User](user.md)\n")
    await faults.fault(START, status=status)
    with pytest.raises(BackendUnavailable):
        await backend.snapshot(place)
    assert await backend.read_file(f"{place}/MEMORY.md") == b"- [User](user.md)\n"


async def test_a_workspace_that_was_closed_and_opened_again_is_used_with_its_new_sandbox(new_sandbox, place):
    workspace = E2BWorkspace()
    backend = adapt(workspace)
    for _ in range(2):
        workspace._backend = AgentScopeBackend(await new_sandbox(), HOME)
        assert not await backend.file_exists(f"{place}/MEMORY.md")
        await backend.write_file(f"{place}/MEMORY.md", b"x")
