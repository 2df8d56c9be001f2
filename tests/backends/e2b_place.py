"""Where the E2B tests run: sandboxes on the local stand-in, and on the real cloud when there is a key for it.

A test module takes these fixtures with ``pytest_plugins = ["e2b_place"]``. Making a sandbox takes a third of a second and
the real ones cost money, so there is one per module, and every test works in a directory of its own.
"""

import asyncio
import base64
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from e2b import AsyncSandbox
from e2b_standin.control import StandIn, why_unavailable

from agentic_memory.backends import E2BBackend
from agentic_memory.testing import Place

SANDBOX_SECONDS = 600
HOME = "/home/user"


def why_no_cloud() -> str:
    """Say why the real cloud is not used; empty when it is."""
    if os.environ.get("E2B_API_URL"):
        return "E2B_API_URL points somewhere else than the E2B cloud"
    if not os.environ.get("E2B_API_KEY", "").startswith("e2b_"):
        return "set E2B_API_KEY to a real key (e2b_...) to run the same tests on the E2B cloud"
    return ""


WHY_NO_CLOUD = why_no_cloud()
WHY_NO_STANDIN = why_unavailable()


async def _make_sandbox(**options: Any) -> AsyncSandbox:
    # With a key of its own a request whose answer is lost, and that the SDK repeats, makes one sandbox and not two.
    defaults = {"timeout": SANDBOX_SECONDS, "idempotency_key": uuid.uuid4().hex}
    return await AsyncSandbox.create(**(defaults | options))


@pytest.fixture(scope="session")
def standin() -> Iterator[StandIn]:
    """The stand-in's server."""
    if WHY_NO_STANDIN:
        # On a contributor's desk this may be so; where everything must be proved it is a failure.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(WHY_NO_STANDIN)
    with StandIn() as server:
        yield server


def _sandbox_for_module(**options: str) -> Iterator[AsyncSandbox]:
    # The SDK's connections belong to no event loop, so a sandbox made in one loop serves in every test's own.
    sandbox = asyncio.run(_make_sandbox(**options))
    yield sandbox
    asyncio.run(sandbox.kill())


@pytest.fixture(scope="module")
def local_sandbox(standin: StandIn) -> Iterator[AsyncSandbox]:
    """A sandbox on the stand-in."""
    yield from _sandbox_for_module(**standin.options)


@pytest.fixture(scope="module")
def cloud_sandbox() -> Iterator[AsyncSandbox]:
    """A sandbox on the real cloud; skips with the reason when there is none."""
    if WHY_NO_CLOUD:
        pytest.skip(WHY_NO_CLOUD)
    yield from _sandbox_for_module()


PLACES = ["stand-in"] if WHY_NO_CLOUD else ["stand-in", "cloud"]


@pytest.fixture(scope="module", params=PLACES)
def e2b_sandbox(request: pytest.FixtureRequest) -> AsyncSandbox:
    """A sandbox in each place there is: what holds on the stand-in must hold on the cloud."""
    sandbox: AsyncSandbox = request.getfixturevalue(
        {"stand-in": "local_sandbox", "cloud": "cloud_sandbox"}[request.param]
    )
    return sandbox


@pytest.fixture
def options_of() -> Callable[[AsyncSandbox], dict[str, Any]]:
    """Where a sandbox is, as arguments for calls that name it by its id."""

    def options(sandbox: AsyncSandbox) -> dict[str, Any]:
        known = sandbox.connection_config.get_api_params()
        return {name: known[name] for name in ("api_key", "api_url", "sandbox_url")}

    return options


@pytest.fixture
def connect_again(options_of: Callable[[AsyncSandbox], dict[str, Any]]) -> Callable[..., Awaitable[AsyncSandbox]]:
    """Open a second session of a sandbox."""

    async def connect(sandbox: AsyncSandbox) -> AsyncSandbox:
        return await AsyncSandbox.connect(sandbox.sandbox_id, timeout=SANDBOX_SECONDS, **options_of(sandbox))

    return connect


@pytest.fixture
async def new_sandbox(standin: StandIn) -> AsyncIterator[Callable[..., Awaitable[AsyncSandbox]]]:
    """Make sandboxes on the stand-in that one test may do away with; they are killed at its end."""
    made: list[AsyncSandbox] = []

    async def make(**options: Any) -> AsyncSandbox:
        made.append(await _make_sandbox(**standin.options, **options))
        return made[-1]

    yield make
    for sandbox in made:
        await standin.change(sandbox.sandbox_id, "kill")


@pytest.fixture
async def faults(standin: StandIn) -> AsyncIterator[StandIn]:
    """The stand-in, to make things go wrong on. A fault that never struck fails the test: it proved nothing."""
    await standin.clear()
    await standin.calls()
    yield standin
    assert await standin.clear() == 0, "a fault was set but never struck"


@pytest.fixture
def place() -> str:
    """The path of a directory that no other test uses; it is not there yet."""
    return f"{HOME}/{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def contract_place(e2b_sandbox: AsyncSandbox, place: str) -> Place:
    """What a conformance suite needs, in a directory of its own."""

    async def run(script: str) -> bytes:
        coded = base64.b64encode(script.encode()).decode()
        command = f'set -o pipefail; sh -c "$(echo {coded} | base64 -d)" | base64'
        return base64.b64decode((await e2b_sandbox.commands.run(command)).stdout)

    @asynccontextmanager
    async def unreachable() -> AsyncIterator[None]:
        await e2b_sandbox.pause()
        yield
        await e2b_sandbox.connect(timeout=SANDBOX_SECONDS)

    await e2b_sandbox.files.make_dir(place)
    return Place(
        backend=E2BBackend(e2b_sandbox, HOME),
        rival=E2BBackend(e2b_sandbox, HOME),
        root=f"{place}/memory",
        outside=f"{place}/outside",
        run=run,
        unreachable=unreachable,
    )
