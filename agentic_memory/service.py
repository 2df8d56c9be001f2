"""Long-term memory for AgentScope's agent service: ``create_app(extra_agent_middlewares=MemoryMiddlewareFactory())``."""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Self

from agentscope.middleware import MiddlewareBase
from agentscope.workspace import WorkspaceBase
from pydantic import ValidationError

from agentic_memory.errors import AgenticMemoryError, MissingIdentity
from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.parameters import MemoryParameters
from agentic_memory.places import Layer, Places
from agentic_memory.scopes import TEMPLATES, Identity

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger("agentic_memory")

PREFIX: Final = "AGENTIC_MEMORY_"
OWN_VARIABLES: Final = ("ENABLED", "WORKDIR", "DIR", "SCOPE", "PROJECT_ID")
NOT_OURS: Final = ("MODEL", "DEBUG", "PYTHON")
"""Variables of that prefix which other parts of this package read."""
MAX_KEPT: Final = 1_000
"""Sessions whose middleware is kept for their next turn. One that gave way is built anew, which costs nothing but itself."""

_SPOKEN: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


class InvalidSettings(AgenticMemoryError, ValueError):
    """An environment variable holds what it cannot hold; the message names all of them."""


def parameter_variables() -> Mapping[str, str]:
    """Return the environment variable of each parameter of the middleware that a text can express, and its name."""
    spelled = MemoryParameters.model_json_schema()["properties"]  # models are not in it
    return {f"{PREFIX}{name.upper()}": name for name in spelled}


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the environment says about memory. The table of the variables is in ``docs/service.md``.

    Attributes:
        enabled: Whether agents get memory at all.
        workdir: Directory on this machine's disk; None: the workspace of each agent.
        memory_dir: Directory below the place of each layer.
        layers: Which memories are read together; the first is written to.
        project_id: The project of this deployment, for the scope of that name.
        parameters: Of the middleware.
    """

    enabled: bool = True
    workdir: str | None = None
    memory_dir: str = "Memory"
    layers: tuple[Layer, ...] = (Layer("user"),)
    project_id: str | None = None
    parameters: MemoryParameters = field(default_factory=lambda: MemoryParameters(mode="both"))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read and check all variables.

        Raises:
            InvalidSettings: naming each variable that cannot be used, and why.
        """
        given = {name: value.strip() for name, value in environ.items() if name.startswith(PREFIX) and value.strip()}
        known = {f"{PREFIX}{name}" for name in (*OWN_VARIABLES, *NOT_OURS)} | set(parameter_variables())
        for name in sorted(set(given) - known):
            # Not an error: a cluster puts the address of a service of this name into every container under it.
            near = get_close_matches(name, known, n=1)
            logger.warning("memory: %s is not a setting and is ignored%s", name, f"; is it {near[0]}?" if near else "")
        wrong: list[str] = []
        enabled = _SPOKEN.get(given.get(f"{PREFIX}ENABLED", "true").lower())
        if enabled is None:
            wrong.append(f"{PREFIX}ENABLED is {given[f'{PREFIX}ENABLED']!r}: use true or false")
        values = {name: given[variable] for variable, name in parameter_variables().items() if variable in given}
        try:
            parameters = MemoryParameters.model_validate({"mode": "both", **values})
        except ValidationError as error:
            wrong += [
                f"{PREFIX}{'_'.join(map(str, problem['loc'])).upper()} is {problem['input']!r}: {problem['msg']}"
                for problem in error.errors()
            ]
        layers: tuple[Layer, ...] = ()
        memory_dir, project_id = given.get(f"{PREFIX}DIR", "Memory"), given.get(f"{PREFIX}PROJECT_ID")
        try:
            layers = tuple(map(_layer_of, given.get(f"{PREFIX}SCOPE", "user").split(",")))
            # Everybody the service knows has these; what else a template needs must be in the environment.
            somebody = Identity(user_id="u", agent_id="a", session_id="s", project_id=project_id)
            Places(layers, identity=somebody, workdir="/", memory_dir=memory_dir)
        except MissingIdentity:
            wrong.append(f"{PREFIX}SCOPE keeps projects apart: set {PREFIX}PROJECT_ID too")
        except AgenticMemoryError as error:
            wrong.append(f"{PREFIX}SCOPE and {PREFIX}DIR: {error}")
        if wrong:
            raise InvalidSettings("memory cannot be set up: " + "; ".join(wrong))
        return cls(
            enabled=enabled is not False,
            workdir=given.get(f"{PREFIX}WORKDIR"),
            memory_dir=memory_dir,
            layers=layers,
            project_id=project_id,
            parameters=parameters,
        )


def _layer_of(text: str) -> Layer:
    name, separator, template = (part.strip() for part in text.strip().partition("="))
    if not separator and name not in TEMPLATES and "{" in name:
        name, template = "memory", name
    return Layer(name, template)


class MemoryMiddlewareFactory:
    """Give every turn of every agent in the service the memory of its user.

    ::

        factory = MemoryMiddlewareFactory()
        app = create_app(storage=..., message_bus=..., workspace_manager=..., extra_agent_middlewares=factory)
        factory.attach_to_app(app)

    Whose memory it is comes from the ids that the service authenticated, and from nothing else. What was read of a memory
    is shared by all turns of this process.

    Args:
        settings: What the environment would say; read from there when None.

    Raises:
        InvalidSettings: the environment cannot be used.
    """

    def __init__(self, settings: ServiceSettings | None = None) -> None:
        self._settings = ServiceSettings.from_environment(os.environ) if settings is None else settings
        self._kept: OrderedDict[tuple[str, ...], tuple[AgenticMemoryMiddleware, object]] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def __call__(
        self, user_id: str, agent_id: str, session_id: str, workspace: WorkspaceBase | None = None
    ) -> list[MiddlewareBase]:
        """Return the middleware for a turn; none when memory is switched off."""
        settings = self._settings
        if not settings.enabled:
            return []
        key = (user_id, agent_id, session_id)
        kept = self._kept.get(key)
        if kept is not None and kept[1] is workspace:
            self._kept.move_to_end(key)
            return [kept[0]]
        if settings.workdir is None and workspace is None:
            raise InvalidSettings(
                f"there is no workspace to keep memory in: set {PREFIX}WORKDIR, or use an AgentScope that hands its "
                "workspace to middleware factories"
            )
        place: dict[str, Any] = {"workdir": settings.workdir}
        if settings.workdir is None and workspace is not None:
            place = {"workdir": workspace.workdir, "backend": workspace}
        middleware = AgenticMemoryMiddleware(
            **place,
            memory_dir=settings.memory_dir,
            parameters=settings.parameters,
            layers=settings.layers,
            identity=Identity(
                user_id=user_id, agent_id=agent_id, session_id=session_id, project_id=settings.project_id
            ),
        )
        if kept is not None:
            self._let_go(key)
        self._kept[key] = (middleware, workspace)
        while len(self._kept) > MAX_KEPT:
            self._let_go(next(iter(self._kept)))
        return [middleware]

    def attach_to_app(self, app: "FastAPI") -> None:
        """Close the factory when the app shuts down, before the service lets go of its workspaces."""
        inner = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(app: "FastAPI") -> AsyncIterator[Any]:
            async with inner(app) as state:
                try:
                    yield state
                finally:
                    await self.aclose()

        app.router.lifespan_context = lifespan

    async def aclose(self) -> None:
        """Let what replies taught be written, within the middleware's own deadline, and forget all sessions."""
        while self._kept:
            self._let_go(next(iter(self._kept)))
        while self._closing:
            await asyncio.wait(set(self._closing))

    def _let_go(self, key: tuple[str, ...]) -> None:
        middleware, _ = self._kept.pop(key)
        task = asyncio.get_running_loop().create_task(_close(middleware))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


async def _close(middleware: AgenticMemoryMiddleware) -> None:
    try:
        await middleware.aclose()
    except Exception as error:  # noqa: BLE001 - one memory that cannot be closed must not keep the others open
        logger.warning("memory: closing failed: %s", error)
