"""Several memories that are read together, of which one is written to."""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

import anyio.to_thread

from agentic_memory.errors import UnsafePath
from agentic_memory.selection.lexical import LexicalIndex, stands_out
from agentic_memory.selection.selector import Request, Selection, joined
from agentic_memory.shelf import Snapshot, shelf_for
from agentic_memory.store import MemoryStore
from agentic_memory.values import MemoryFile, Problem

SEPARATOR: Final = ":"
"""Between a layer and a file name: ``project:deploy.md``. Files of the layer that is written to have no prefix."""
MERGE_IN_THREAD_FROM: Final = 1_000
"""Files from which putting the layers together leaves the event loop: fewer take about a millisecond."""
MAX_MERGED: Final = 256
"""Merged snapshots kept in one process, so that an unchanged memory is put together once."""


@dataclass(frozen=True, slots=True)
class View:
    """One layer as a load saw it: ``snapshot``, or why there is none, which never means that it is empty."""

    name: str
    root: str
    snapshot: Snapshot | None
    error: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class LayeredSnapshot(Snapshot):
    """Several memories at one moment: the one that is written to as itself, the others' files under their layer's name.

    Attributes:
        views: Every layer, the one that is written to first.
    """

    views: tuple[View, ...] = field(default=(), repr=False)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong in any layer, each file under its name here."""
        return tuple(
            replace(problem, file=_prefix(view, self) + problem.file)
            for view in self.views
            if view.snapshot is not None
            for problem in view.snapshot.problems
        )

    def path_of(self, filename: str) -> str:
        """Return the absolute path of a file by its name here."""
        view, rest = self._find(filename)
        return f"{view.root}/{rest}"

    def scope_of(self, filename: str) -> str:
        """Return the name of the layer that a file belongs to."""
        return self._find(filename)[0].name

    def successor_of(self, filename: str) -> str:
        """Return the file that took the place of ``filename`` in its own layer; itself when there is none."""
        view, rest = self._find(filename)
        return filename if view.snapshot is None else _prefix(view, self) + view.snapshot.successor_of(rest)

    def _find(self, filename: str) -> tuple[View, str]:
        own = self.views[0]
        name, separator, rest = filename.partition(SEPARATOR)
        if separator and not (own.snapshot is not None and filename in own.snapshot.documents):
            for view in self.views[1:]:
                if view.name == name:
                    return view, rest
        return own, filename


class LayeredStore(MemoryStore):
    """A memory with others beside it that are only read.

    Reading (``load``, ``search``, ``get``, ``get_all``) sees all of them; a file of another layer has the layer before its
    name, ``project:deploy.md``. Everything else is about the memory itself. A load is one round trip for each layer, all
    at once; a layer that cannot be read is a view with an error, and the others are there.

    Args:
        name: What this memory is called among the layers.
        beside: The others by name.
        arguments: What ``MemoryStore`` takes.
    """

    def __init__(self, *, name: str, beside: Mapping[str, MemoryStore], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._name = name
        self.beside = dict(beside)

    @property
    def round_trips(self) -> int:
        """How often the places of all layers were asked so far, by whomever. Monotonic."""
        backends = {id(store.backend): store.backend for store in (self, *self.beside.values())}
        return sum(backend.round_trips for backend in backends.values())

    async def load(self) -> Snapshot:
        """See all layers at once. Raises only when the memory itself cannot be read."""
        own, *others = await asyncio.gather(
            self._look(), *(store.load() for store in self.beside.values()), return_exceptions=True
        )
        if isinstance(own, BaseException):
            raise own
        views = [View(self._name, own.root, own)]
        for (name, store), seen in zip(self.beside.items(), others, strict=True):
            if isinstance(seen, Exception):
                views.append(View(name, store.named_root, None, str(seen) or type(seen).__name__))
            elif isinstance(seen, BaseException):
                raise seen
            else:
                views.append(View(name, seen.root, seen))
        places = (self.backend.cache_key, *(store.backend.cache_key for store in self.beside.values()))
        if sum(len(view.snapshot.documents) for view in views if view.snapshot is not None) < MERGE_IN_THREAD_FROM:
            return _merge(places, views)
        return await anyio.to_thread.run_sync(_merge, places, views)

    async def select(self, snapshot: Snapshot, query: str, *, limit: int, patience: float) -> Selection:
        """Rank the files of all layers, each layer in its own index: shared ones are indexed once for all."""
        if not isinstance(snapshot, LayeredSnapshot):
            return await super().select(snapshot, query, limit=limit, patience=patience)
        asked = (self._select_one(view, query, limit, patience) for view in snapshot.views if view.snapshot is not None)
        views = [view for view in snapshot.views if view.snapshot is not None]
        selections = await asyncio.gather(*asked)
        hits = [
            replace(
                hit, filename=_prefix(view, snapshot) + hit.filename, via=hit.via and _prefix(view, snapshot) + hit.via
            )
            for view, selection in zip(views, selections, strict=True)
            for hit in selection.hits
        ]
        hits.sort(key=lambda hit: -hit.score)  # stable: the memory itself comes before the others
        hits = [hit for hit in hits if hit.filename in snapshot.documents][:limit]
        clear = stands_out(hits) and any(selection.clear for selection in selections)
        return joined(selections, hits, clear=clear)

    def request(self, snapshot: Snapshot, query: str, *, limit: int, patience: float) -> Request:
        """Put together what a selector is asked about the files of all layers, which it sees as one memory."""
        asked = super().request(snapshot, query, limit=limit, patience=patience)
        if not isinstance(snapshot, LayeredSnapshot):
            return asked
        roots = tuple(view.root for view in snapshot.views)

        def words() -> LexicalIndex:
            # Apart from the index of the memory itself, which would be changed to and fro, and only for who asks.
            return shelf_for((self.backend.cache_key, roots), snapshot.root).index_for_search(snapshot)

        uses = dict(asked.uses)
        for view in snapshot.views[1:]:
            if view.snapshot is not None:
                there = self.beside[view.name].request(view.snapshot, query, limit=limit, patience=patience).uses
                uses |= {_prefix(view, snapshot) + filename: count for filename, count in there.items()}
        return replace(asked, words=words, kept=asked.kept.setdefault("layers", {}).setdefault(roots, {}), uses=uses)

    async def note_use(self, filenames: Sequence[str]) -> None:
        """Count memories as shown to an agent once more, each in its own layer."""
        shown: dict[str, list[str]] = {}
        for filename in filenames:
            name, separator, rest = filename.partition(SEPARATOR)
            beside = separator and name in self.beside
            shown.setdefault(name if beside else "", []).append(rest if beside else filename)
        await super().note_use(shown.pop("", []))
        for name, files in shown.items():
            await self.beside[name].note_use(files)

    async def _select_one(self, view: View, query: str, limit: int, patience: float) -> Selection:
        assert view.snapshot is not None  # the caller leaves out views that could not be read
        if view.name == self._name:
            return await super().select(view.snapshot, query, limit=limit, patience=patience)
        return await self.beside[view.name].select(view.snapshot, query, limit=limit, patience=patience)

    async def get(self, filename: str) -> MemoryFile:
        """Read one memory of any layer by its file name here."""
        name, separator, rest = filename.partition(SEPARATOR)
        if separator and name in self.beside:
            return replace(await self.beside[name].get(rest), filename=filename)
        return await super().get(filename)

    async def aclose(self) -> None:
        """Release what the stores of all layers hold."""
        for store in self.beside.values():
            await store.aclose()
        await super().aclose()

    def _writable(self, filename: str, *, index: bool = False) -> str:
        name, separator, _ = filename.partition(SEPARATOR)
        if separator and name in self.beside:
            raise UnsafePath(
                f"{filename!r} is in the layer {name!r}, which is only read here, so nothing was written; "
                f"write to the layer {self._name!r}, whose files have no prefix"
            )
        return super()._writable(filename, index=index)


def _prefix(view: View, snapshot: LayeredSnapshot) -> str:
    return "" if view is snapshot.views[0] else f"{view.name}{SEPARATOR}"


_merged: OrderedDict[Hashable, LayeredSnapshot] = OrderedDict()
_merged_lock = Lock()


def _merge(places: Hashable, views: Sequence[View]) -> LayeredSnapshot:
    """Put the layers together, or return what was put together of the very same snapshots."""
    key = (places, tuple((view.name, view.root) for view in views))
    with _merged_lock:
        last = _merged.get(key)
        if last is None or not all(map(_is_same, last.views, views)):
            last = _merged[key] = _put_together(views)
        _merged.move_to_end(key)
        while len(_merged) > MAX_MERGED:
            _merged.popitem(last=False)
        return last


def _is_same(one: View, other: View) -> bool:
    return one.snapshot is other.snapshot and one.error == other.error


def _put_together(views: Sequence[View]) -> LayeredSnapshot:
    own = views[0].snapshot
    assert own is not None  # a memory that cannot be read raised
    documents, files = dict(own.documents), list(own.tree.files)
    for view in views[1:]:
        if view.snapshot is not None:
            prefix = f"{view.name}{SEPARATOR}"
            # A file of our own that is named like another layer's keeps its name.
            documents = {f"{prefix}{name}": held for name, held in view.snapshot.documents.items()} | documents
            files += [replace(record, path=f"{prefix}{record.path}") for record in view.snapshot.tree.files]
    files.sort(key=lambda record: record.path)
    return LayeredSnapshot(
        root=own.root,
        tree=replace(own.tree, files=tuple(files)),
        documents=MappingProxyType(dict(sorted(documents.items()))),
        index_record=own.index_record,
        index_document=own.index_document,
        unnameable=own.unnameable,
        views=tuple(views),
    )
