"""Where the memory of a reply is: which layers, below which ids, and the stores of those places."""

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final

from agentscope.agent import Agent
from agentscope.state import AgentState

from agentic_memory.errors import MissingIdentity, UnsafePath
from agentic_memory.layers import LayeredStore
from agentic_memory.scopes import IDENTITY_FIELDS, TEMPLATES, Identity, PathTemplate
from agentic_memory.store import MemoryStore

IdentitySource = Identity | Callable[[Agent], Identity]
"""Who replies are for, or a function of the host program that knows it of an agent."""

MAX_STORES: Final = 1_000
"""Stores kept by one middleware. One is a few hundred bytes; what was read of a memory is kept elsewhere."""

_LAYER_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,30}")


@dataclass(frozen=True, slots=True)
class Layer:
    """One of several memories that a reply reads together.

    Attributes:
        name: What it is called: a scope (``user``, ``agent``, ``project``, ``session``) or a word of your own.
        template: Its directory below the working directory, such as ``teams/{project_id}``; that of the scope when empty.
            ``.`` is the working directory itself, as without any scope.
        workdir: Another working directory than that of the middleware; it must not lie inside it.
    """

    name: str
    template: str = ""
    workdir: str | None = None


@dataclass(frozen=True, slots=True)
class _Spot:
    name: str
    workdir: str
    template: PathTemplate


class Places:
    """The layers of a middleware, and the store of each identity.

    Args:
        layers: The first is the one that is written to.
        identity: Who replies are for.
        workdir, memory_dir: Of every layer, below which and above which its template is.
        store: What else the stores are made with.

    Raises:
        UnsafePath: a name or template cannot be used, or two layers could be in the same directory.
        MissingIdentity: a template needs an id that nobody gives.
    """

    def __init__(
        self, layers: Sequence[Layer], *, identity: IdentitySource | None, workdir: str, memory_dir: str, **store: Any
    ) -> None:
        self._identity = Identity() if identity is None else identity
        self._arguments = store
        self._spots = [_spot_of(layer, workdir=workdir, memory_dir=memory_dir) for layer in layers]
        self._stores: OrderedDict[tuple[str, ...], MemoryStore] = OrderedDict()
        for one, other in combinations(self._spots, 2):
            if one.name == other.name:
                raise UnsafePath(f"two layers are called {one.name!r}: give each a name of its own")
            if one.workdir == other.workdir and one.template.meets(other.template):
                raise UnsafePath(
                    f"the layers {one.name!r} ({one.template.text}) and {other.name!r} ({other.template.text}) could be in "
                    "the same directory, or one inside the other: begin their templates with different words"
                )
        if isinstance(self._identity, Identity):
            self._paths(replace(self._identity, session_id=self._identity.session_id or "known with the agent"))

    @property
    def templates(self) -> Sequence[PathTemplate]:
        """Where the memory directory of each layer is below its working directory, the own one first."""
        return [spot.template for spot in self._spots]

    def identify(self, agent: Agent | None, *, state: AgentState | None) -> Identity:
        """Return who a reply of ``agent`` is for; ``state`` says the session.

        Raises:
            MissingIdentity: it takes an agent to tell.
        """
        if callable(self._identity):
            if agent is None:
                raise MissingIdentity("whose memory it is depends on the agent: ask for it with store_of(agent)")
            known = self._identity(agent)
        else:
            known = self._identity
        if known.session_id is None and state is not None:
            known = replace(known, session_id=state.session_id)
        return known

    def store_for(self, identity: Identity) -> MemoryStore:
        """Return the memory of ``identity``, with its other layers beside it.

        Raises:
            MissingIdentity: an id that a template needs is not known.
        """
        paths = self._paths(identity)
        store = self._stores.get(paths)
        if store is None:
            store = self._stores[paths] = self._open(paths)
            while len(self._stores) > MAX_STORES:
                self._stores.popitem(last=False)
        else:
            self._stores.move_to_end(paths)
        return store

    def stores(self) -> Sequence[MemoryStore]:
        """Return the stores kept at present."""
        return list(self._stores.values())

    def _paths(self, identity: Identity) -> tuple[str, ...]:
        return tuple(spot.template.fill(identity) for spot in self._spots)

    def _open(self, paths: Sequence[str]) -> MemoryStore:
        own, *others = self._spots
        where: dict[str, Any] = {**self._arguments, "workdir": own.workdir, "memory_dir": paths[0]}
        if not others:
            return MemoryStore(**where)
        beside = {
            spot.name: MemoryStore(**{**self._arguments, "workdir": spot.workdir, "memory_dir": path})
            for spot, path in zip(others, paths[1:], strict=True)
        }
        return LayeredStore(name=own.name, beside=beside, **where)


def _spot_of(layer: Layer, *, workdir: str, memory_dir: str) -> _Spot:
    if not _LAYER_NAME.fullmatch(layer.name):
        raise UnsafePath(f"{layer.name!r} cannot name a layer: use lower-case letters, digits, _ and -")
    template = layer.template or TEMPLATES.get(layer.name)
    if template is None:
        fields = ", ".join(f"{{{name}}}" for name in IDENTITY_FIELDS)
        raise UnsafePath(
            f"{layer.name!r} is no scope ({', '.join(TEMPLATES)}): give the layer a template, a path with {fields} in it"
        )
    return _Spot(
        layer.name,
        str(layer.workdir or workdir),
        PathTemplate(memory_dir if template == "." else f"{template}/{memory_dir}"),
    )


def layers_of(scope: str | None, layers: Sequence[Layer]) -> Sequence[Layer]:
    """Return the layers that a user asked for: those given, or the one that ``scope`` names or is the template of."""
    if scope is None:
        return layers
    if layers:
        raise UnsafePath("give either scope or layers: layers=[Layer('user'), Layer('project')] writes to the first")
    return [Layer(scope)] if scope in TEMPLATES or not set(scope) & set("{}/") else [Layer("memory", scope)]
