"""``Memory``: the calls that Mem0's users know, on Markdown files."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from agentscope.model import ChatModelBase

from agentic_memory.document import parse_document
from agentic_memory.errors import BackendUnavailable, InvalidMemory, MemoryNotFound
from agentic_memory.facade.owners import TOPS, Owner, find_place
from agentic_memory.facade.records import (
    Messages,
    Record,
    Said,
    fits,
    learned,
    metadata_fields,
    plain,
    record_of,
    scores_of,
    texts_in,
    told,
)
from agentic_memory.operations import Forget, Update
from agentic_memory.stale import Stale, unless_changed
from agentic_memory.store import BackendSource, MemoryStore
from agentic_memory.titles import describe, title_of
from agentic_memory.writeback.learner import Learner

MAX_ATTEMPTS: Final = 20
"""How often an addition is made anew when others add at the same moment."""


class Memory:
    """Memories of users, agents and runs, with the calls and answers of Mem0, kept as Markdown files.

    A memory lives with its user; without one with its agent, else with its run. Further ids are kept in the file and
    narrow what is found. The id of a memory is its place, ``users/alice/green_tea.md``: people find the file by it, and
    an agent with ``AgenticMemoryMiddleware(scope="user")`` reads and writes the same ones. What is deleted goes to the
    trash of its directory; the history keeps every version.

    Args:
        workdir: Directory that holds all of it, in the backend's own terms.
        memory_dir: Name of the memory directory of each user.
        model: What learns from conversations when ``add`` infers. Without one, what is added is kept as it is.
        backend: Where the bytes live; the local disk when None.
    """

    def __init__(
        self,
        *,
        workdir: str = ".",
        memory_dir: str = "Memory",
        model: ChatModelBase | None = None,
        backend: BackendSource | None = None,
    ) -> None:
        self._workdir = workdir
        self._memory_dir = memory_dir
        self._model = model
        self._store = MemoryStore(workdir=workdir, memory_dir=memory_dir, backend=backend)

    async def aclose(self) -> None:
        """Release what the memory holds. The backend belongs to whoever made it."""
        await self._store.aclose()

    async def __aenter__(self) -> Self:
        """Return the memory itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the memory."""
        await self.aclose()

    def store_of(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> MemoryStore:
        """Return the memory of a user, of an agent that serves nobody in particular, or of a run.

        Raises:
            MissingIdentity: none of the ids is given.
        """
        return self._open(Owner.of({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}))

    # ------------------------------------------------------------------ writing

    async def add(
        self,
        messages: Messages,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool = True,
    ) -> dict[str, Any]:
        """Learn from a conversation; or, without a model or with ``infer=False``, keep each of its messages as it is.

        Messages of the system are passed over.

        Args:
            messages: A text, a message (``role``, ``content``, maybe ``name``), or several.
            user_id, agent_id, run_id: Whose memory it is; at least one.
            metadata: JSON values, kept as fields of the file.
            infer: Whether the model extracts facts and decides on each against what is known.

        Returns:
            ``{"results": [{"id", "memory", "event", ...}]}``; ``event`` is ``ADD``, ``UPDATE`` or ``DELETE``, and ``NONE``
            for a text that is there already. When the model failed, nothing is lost: the conversation waits in the queue
            of the memory, and beside the empty results stand ``status`` and ``error``.
        """
        owner = Owner.of({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        fields = {**metadata_fields(metadata or {}), **dict(owner.further)}
        fields["created"] = datetime.now(UTC).isoformat(timespec="seconds")
        said = texts_in(messages)
        store = self._open(owner)
        if infer and self._model is not None:
            return await self._learn(self._model, store, owner, said, fields)
        for _ in range(MAX_ATTEMPTS):
            snapshot = await store.load()
            known = {plain(document.body): name for name, (_, document) in snapshot.documents.items()}
            new = {plain(one.text): one for one in said if plain(one.text) not in known}
            creates = [one.create(fields) for one in new.values()]
            try:
                done = await store.apply(creates, why="added", check=unless_changed(snapshot)) if creates else None
            except Stale:
                continue
            added = [] if done is None else [outcome.filename for outcome in done.outcomes]
            places = {**known, **dict(zip(new, added, strict=True))}
            return {"results": [told(owner, one, places[plain(one.text)], added) for one in said]}
        raise BackendUnavailable(f"{store.named_root}: others kept changing it, so nothing was added; try again")

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        *,
        data: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, str]:
        """Give a memory another text, other metadata, or both; ``data`` is what older releases called ``text``.

        Raises:
            MemoryNotFound: there is no such memory.
        """
        owner, filename = find_place(memory_id)
        text = data if text is None else text
        if text is None and metadata is None:
            raise InvalidMemory("nothing to change was given: give text or metadata")
        store = self._open(owner)
        file = await store.get(filename)
        # A title or description that a person worded stays; one that was made of the old text follows the new.
        follows = text is not None and file.name == title_of(file.content)
        described = text is not None and file.description == describe(file.content)
        await store.apply(
            [
                Update(
                    filename=filename,
                    name=title_of(text) if text is not None and follows else None,
                    description=describe(text) if text is not None and described else None,
                    content=None if text is None else f"{text.strip()}\n",
                    fields=metadata_fields(metadata or {}),
                    expected=file.version,
                    allow_loss=True,
                )
            ]
        )
        return {"message": "Memory updated successfully!"}

    async def delete(self, memory_id: str) -> dict[str, str]:
        """Move a memory to the trash.

        Raises:
            MemoryNotFound: there is no such memory.
        """
        owner, filename = find_place(memory_id)
        await self._open(owner).forget(filename)
        return {"message": "Memory deleted successfully!"}

    async def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Move every memory of a user, agent or run to the trash, in one change.

        Raises:
            MissingIdentity: none of the ids is given; to delete everything there is ``reset``.
        """
        await self._forget_all(Owner.of({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}))
        return {"message": "Memories deleted successfully!"}

    async def reset(self) -> None:
        """Move every memory of everybody to the trash of its directory."""
        for owner in await self._owners():
            await self._forget_all(owner)

    # ------------------------------------------------------------------ reading

    async def get(self, memory_id: str) -> Record | None:
        """Return a memory, or None when there is none."""
        try:
            owner, filename = find_place(memory_id)
            return record_of(owner, await self._open(owner).get(filename))
        except MemoryNotFound:
            return None

    async def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        limit: int | None = None,
    ) -> dict[str, list[Record]]:
        """Return the memories of a user, agent or run, by file name.

        Args:
            user_id, agent_id, run_id: Whose; also in ``filters``.
            filters: Ids, and metadata that has to be equal.
            top_k: The most that are returned; all when None. ``limit`` is what older releases called it.
        """
        wanted = {**(filters or {}), **_given(user_id=user_id, agent_id=agent_id, run_id=run_id)}
        owner = Owner.of(wanted)
        snapshot = await self._open(owner).load()
        records = [record_of(owner, file) for file in snapshot.files]
        found = [record for record in records if fits(record, owner, wanted)]
        return {"results": found[: limit if top_k is None else top_k]}

    async def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        limit: int | None = None,
        threshold: float | None = None,
    ) -> dict[str, list[Record]]:
        """Find memories by words, best first. Nothing relevant is an empty list.

        Args:
            query: What is looked for.
            user_id, agent_id, run_id, filters, top_k, limit: As in ``get_all``.
            threshold: The least score that is returned. A score is between 0 and 1: which share of the query the best
                one has, and in proportion to it for the others.
        """
        wanted = {**(filters or {}), **_given(user_id=user_id, agent_id=agent_id, run_id=run_id)}
        owner = Owner.of(wanted)
        most = top_k if limit is None else limit
        if most < 1 or not query.strip():
            return {"results": []}
        store = self._open(owner)
        snapshot = await store.load()
        narrowed = len(wanted) > 1  # what does not fit is taken out afterwards, so more are looked at
        hits = await store.rank(snapshot, query, limit=len(snapshot.documents) if narrowed else most)
        records = [
            {**record_of(owner, snapshot.file(hit.filename)), "score": score}
            for hit, score in zip(hits, scores_of(hits), strict=True)
            if threshold is None or score >= threshold
        ]
        return {"results": [record for record in records if fits(record, owner, wanted)][:most]}

    async def history(self, memory_id: str) -> list[Record]:
        """Return what became of a memory, oldest first: ``event`` is ``ADD``, ``UPDATE`` or ``DELETE``.

        Raises:
            MemoryNotFound: there is no such memory and never was.
        """
        owner, filename = find_place(memory_id)
        store = self._open(owner)
        texts: dict[str | None, str | None] = {None: None}
        changes = []
        for version in reversed(await store.history(filename)):
            for state in (version.previous, version.version):
                if state is not None and state not in texts:
                    texts[state] = parse_document(await store.read_version(state), filename=filename).body.strip()
            event = "DELETE" if version.version is None else "ADD" if version.previous is None else "UPDATE"
            changes.append(
                {
                    "id": f"{memory_id}@{version.when.isoformat()}",
                    "memory_id": memory_id,
                    "old_memory": texts[version.previous],
                    "new_memory": texts[version.version],
                    "event": event,
                    "created_at": version.when.isoformat(),
                    "updated_at": version.when.isoformat(),
                    "is_deleted": version.version is None,
                    "actor_id": version.who,
                    "role": None,
                }
            )
        return changes

    # ------------------------------------------------------------------ inside

    async def _learn(
        self, model: ChatModelBase, store: MemoryStore, owner: Owner, said: Sequence[Said], fields: Mapping[str, str]
    ) -> dict[str, Any]:
        report = await Learner(store, model).learn([one.message() for one in said])
        if report.status in {"waiting", "failed"}:
            return {"results": [], "status": report.status, "error": report.error}
        added = [one.filename for one in report.learned if one.operation == "ADD"]
        if added:
            await store.apply([Update(filename=name, fields=fields) for name in added], why="whose and since when")
        there = (await store.load()).documents if report.learned else {}
        return {"results": [learned(owner, one, there) for one in report.learned]}

    def _open(self, owner: "Owner") -> MemoryStore:
        memory_dir = f"{owner.directory}/{self._memory_dir}"
        return MemoryStore(workdir=self._workdir, memory_dir=memory_dir, backend=self._store.backend)

    async def _forget_all(self, owner: "Owner") -> None:
        store = self._open(owner)
        files = (await store.load()).files
        doomed = [file.filename for file in files if fits(record_of(owner, file), owner, dict(owner.further))]
        if doomed:
            await store.apply([Forget(filename=name) for name in doomed], why="all forgotten")

    async def _owners(self) -> list[Owner]:
        backend = self._store.backend
        found: dict[Owner, None] = {}
        for top in TOPS:
            tree = await backend.snapshot(await backend.resolve(backend.join_path(self._workdir, top)), suffix=".md")
            for record in tree.files:
                owner = Owner(top, record.path.partition("/")[0])
                if f"{top}/{record.path}".startswith(f"{owner.directory}/{self._memory_dir}/"):
                    found[owner] = None
        return list(found)


def _given(**ids: str | None) -> dict[str, str]:
    return {name: value for name, value in ids.items() if value is not None}
