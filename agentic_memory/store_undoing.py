"""The part of a store that brings back what the memory was."""

from agentic_memory.operations import Rewrite
from agentic_memory.store_writing import StoreWriting, file_of
from agentic_memory.values import MemoryFile


class StoreUndoing(StoreWriting):
    """Going back to what a memory was. See ``MemoryStore``."""

    async def restore(self, filename: str, version: str) -> MemoryFile:
        """Make a file again what it was at ``version``, byte for byte. This is a change too, and can be undone alike.

        What is there now is kept in the history first. A file that was forgotten or deleted comes back with its line in
        MEMORY.md.

        Args:
            filename: Which; it need not exist. ``MEMORY.md`` is the index.
            version: One that ``history`` names.

        Raises:
            MemoryNotFound: nobody kept that version.
        """
        filename = self._writable(filename, index=True)
        data = await self.read_version(version)
        operation = Rewrite(filename=filename, data=data, expected=None)
        return file_of(await self._apply([operation], why=f"restored {version[:12]}", policy=None))
