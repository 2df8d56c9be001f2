"""The MemoryUpdate tool."""

from typing import ClassVar, Final

from agentscope.state import AgentState
from agentscope.tool import ToolChunk

from agentic_memory.errors import Conflict
from agentic_memory.shelf import Snapshot
from agentic_memory.shown import without_secrets
from agentic_memory.tools.answers import Refusal, answer, answers_errors
from agentic_memory.tools.cache import drop_cache
from agentic_memory.tools.guarding import tell_remarks
from agentic_memory.tools.inputs import check_text
from agentic_memory.tools.memory_tool import MemoryTool, find_filename
from agentic_memory.tools.reads import known_version, note_read
from agentic_memory.tools.replacement import explain_no_match, replace_text

MAX_ATTEMPTS: Final = 5
"""How often an exchange is made anew when others keep changing the very file."""


class MemoryUpdate(MemoryTool):
    """Change a memory: its text, a passage of it, or its fields. What others change meanwhile is kept or reported."""

    name = "MemoryUpdate"
    prompt = "tool_memory_update"
    arguments: ClassVar = {
        "filename": {"type": "string"},
        "content": {"type": "string"},
        "replaces": {"type": "string"},
        "name": {"type": "string"},
        "description": {"type": "string"},
        "type": {"type": "string"},
    }
    required = ("filename",)

    @answers_errors
    async def call(
        self,
        filename: str = "",
        content: str | None = None,
        replaces: str | None = None,
        name: str | None = None,
        description: str | None = None,
        type: str | None = None,  # noqa: A002 - the frontmatter field's name
        _agent_state: AgentState | None = None,
    ) -> ToolChunk:
        """Make the change, in three round trips as long as nobody else writes at the same moment."""
        fields = {"name": name, "description": description, "type": type}
        given = {key: value.strip() for key, value in fields.items() if value is not None and value.strip()}
        if replaces and content is None:
            raise Refusal("replaces names a passage, but content is missing: give the text that takes its place")
        if content is None and not given:
            raise Refusal("nothing to change was given: give content, name, description or type")
        for text in (content or "", *given.values()):
            check_text(text, "an argument")
        conflict: Conflict | None = None
        store = self._store_of(_agent_state)
        for _ in range(MAX_ATTEMPTS):
            snapshot = await store.load()
            found = find_filename(snapshot, filename)
            path = snapshot.path_of(found)
            seen = None if _agent_state is None else known_version(_agent_state, path)
            record, document = snapshot.documents[found]
            body, expected = _new_body(snapshot, found, content, replaces, seen=seen, asks=_agent_state is not None)
            try:
                file = await store.update(
                    found,
                    name=given.get("name"),
                    description=given.get("description"),
                    type=given.get("type"),
                    content=body,
                    expected=expected,
                    allow_loss=bool(replaces),  # what is to go was written out word for word
                )
            except Conflict as error:
                if not replaces:
                    raise Refusal(
                        f"{found} was changed by others in the same place, so nothing was written. Search or Read it "
                        "again and repeat the change"
                    ) from error
                conflict = error
                continue
            whole = file.content.strip() == (document.body if body is None else body).strip()
            if _agent_state is not None:
                drop_cache(_agent_state, path)
                if whole and (seen == record.version or (content is not None and not replaces)):
                    note_read(_agent_state, path, file.version)  # it knows every line of what is there now
            changed = [*given, *(["content"] if content is not None else [])]
            note = "" if whole else " Others had changed it too, and both changes are kept: Read it before going on."
            note += tell_remarks(document.encode(document.text), file.content.encode("utf-8", "surrogateescape"))
            return answer(f"Updated {found}: {', '.join(changed)}.{note}", filename=found)
        assert conflict is not None
        raise conflict


def _new_body(
    snapshot: Snapshot, filename: str, content: str | None, replaces: str | None, *, seen: str | None, asks: bool
) -> tuple[str | None, str | None]:
    """Return the text a memory shall have, and the version it was made from; None where the text stays."""
    if content is None:
        return None, None
    record, document = snapshot.documents[filename]
    if document.encoding == "binary":
        raise Refusal(f"{filename} holds NUL bytes, so it is no text and cannot be edited")
    if not replaces:
        if not content.strip():
            raise Refusal("content is empty. To forget a memory, use MemoryForget")
        if asks and seen is None:
            raise Refusal(
                f"you have not seen all of {filename}, so its whole text cannot be replaced. Give the passage to change "
                "in replaces, or Read the file first"
            )
        ending = "\n" if document.text.endswith("\n") and not content.endswith("\n") else ""
        return content + ending, seen or record.version
    result = replace_text(document.body, replaces, content)
    if not result.lines:
        near = without_secrets(explain_no_match(document.body, replaces), hide=True)
        raise Refusal(f"replaces was not found in {filename}. {near}".rstrip())
    if len(result.lines) > 1:
        raise Refusal(f"replaces occurs {len(result.lines)} times in {filename}: give a longer passage")
    return result.text, record.version
