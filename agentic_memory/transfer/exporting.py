"""A whole memory as JSON for programs, or as a zip of the files as they are."""

import io
import json
import zipfile
from typing import Final

from agentic_memory.backends import FileRecord
from agentic_memory.shelf import INDEX_FILENAME, Snapshot
from agentic_memory.transfer.json_sources import FORMAT

EXPORT_VERSION: Final = 1
_ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The same memory gives the same zip; 1980 is as far back as the format goes."""


def export_json(snapshot: Snapshot) -> str:
    """Return every memory and the index as JSON text. Bytes that are not UTF-8 are escaped; the zip has them as they are."""
    index = "" if not isinstance(snapshot.index_record, FileRecord) else snapshot.index_document.text
    memories = [
        {key: value for key, value in file.as_dict().items() if key not in {"mtime_ns", "problems"}}
        for file in snapshot.files
    ]
    value = {"format": FORMAT, "version": EXPORT_VERSION, "index": index, "memories": memories}
    return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace").decode() + "\n"


def export_zip(snapshot: Snapshot) -> bytes:
    """Return MEMORY.md and every memory file, byte for byte, as a zip. History and trash are not in it."""
    documents = {name: document for name, (_, document) in snapshot.documents.items()}
    if isinstance(snapshot.index_record, FileRecord):
        documents = {INDEX_FILENAME: snapshot.index_document, **documents}
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in documents.items():
            archive.writestr(zipfile.ZipInfo(name, _ZIP_TIME), document.encode(document.text), zipfile.ZIP_DEFLATED)
    return whole.getvalue()
