"""What a user can tune: upstream's eight fields with their defaults, and ours."""

from typing import Any, Final, Literal

from agentscope.model import ChatModelBase
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from agentic_memory.guards import WritePolicy
from agentic_memory.history.retention import Retention
from agentic_memory.prompts import load_prompt

_TRANSLATED: Final = ("memory_instructions", "retrieval_instructions")


class MemoryParameters(BaseModel):
    """Parameters of ``AgenticMemoryMiddleware``. Token counts are estimates: UTF-8 bytes / 4, as AgentScope counts."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_default=True)

    memory_max_tokens: int = Field(
        default=4_000, ge=0, title="MEMORY.md Max Length", description="Tokens of MEMORY.md in the system prompt."
    )
    memory_instructions: str = Field(
        default_factory=lambda: load_prompt("memory_instructions.en"),
        title="Memory Instructions",
        description="Instructions before MEMORY.md in the system prompt; {memory_dir} becomes the memory directory.",
        json_schema_extra={"format": "textarea"},
    )
    retrieval_async: bool = Field(
        default=True, title="Async Retrieval", description="Whether memory files are picked and shown during a reply."
    )
    retrieval_model: SkipJsonSchema[ChatModelBase | None] = Field(
        default=None, title="Retrieval Model", description="Model that picks the files; the agent's own when None."
    )
    retrieval_max_tokens_per_md: int = Field(
        default=2_000, ge=0, title="Retrieval Max Tokens Per File", description="Tokens shown of one picked file."
    )
    retrieval_max_files: int = Field(
        default=200,
        ge=0,
        title="Retrieval Max Files",
        description="Files put before the model to pick from. Of more, the best by words and then the newest; 0: none.",
    )
    retrieval_max_tokens_per_frontmatter: int = Field(
        default=256,
        ge=0,
        title="Retrieval Max Tokens per Frontmatter",
        description="Tokens of one file's description put before the model that picks. Files are parsed whole.",
    )
    retrieval_instructions: str = Field(
        default_factory=lambda: load_prompt("retrieval_instructions.en"),
        title="Retrieval Instructions",
        description="Instructions of the model that picks the files.",
        json_schema_extra={"format": "textarea"},
    )
    retrieval_max_tokens: int = Field(
        default=6_000,
        ge=0,
        title="Retrieval Max Tokens",
        description="Tokens of all picked files that one reply may add to the context; the best come first.",
    )
    retrieval_timeout: float = Field(
        default=30.0,
        gt=0,
        title="Retrieval Timeout",
        description="Seconds after which a pick that has not come is given up; files that match by words stand in.",
    )
    first_step_wait: float = Field(
        default=1.5,
        ge=0,
        le=60,
        title="First Step Wait",
        description=(
            "Seconds the first model call of a reply may wait for the pick. When they are over, the files that match by "
            "words stand in. 0: never wait and show nothing before the second step, as upstream does."
        ),
    )
    load_timeout: float = Field(
        default=30.0,
        gt=0,
        title="Load Timeout",
        description="Seconds after which a backend that does not answer counts as unavailable for this reply.",
    )
    hint_context_max_tokens: int = Field(
        default=8_000,
        ge=0,
        title="Hint Context Max Tokens",
        description=(
            "Tokens that the hints of earlier replies may take in the context. Over it the oldest are replaced by a "
            "line each until half is free; until then the context is not touched, which keeps prefix caches valid."
        ),
    )
    history: bool = Field(
        default=True,
        title="History",
        description=(
            "Whether every version of every memory file is kept below .history/ of the memory directory, whoever changed "
            "it. A reply takes one more look at its end when a tool ran that may have changed files, else none."
        ),
    )
    history_max_age_days: float | None = Field(
        default=None,
        gt=0,
        title="History Max Age Days",
        description="Days after which a version that was replaced or removed is dropped; None: never.",
    )
    history_max_bytes: int | None = Field(
        default=None,
        ge=0,
        title="History Max Bytes",
        description=(
            "Bytes of old versions above which those replaced first are dropped; what a file was last stays for a week "
            "all the same. None: no bound."
        ),
    )
    losses: Literal["refuse", "ask", "allow"] = Field(
        default="refuse",
        title="Losses",
        description=(
            "What is done when a write would drop more than half of a memory's text or a third of the index. ask: a "
            "person confirms it, also in bypass mode. Text that Edit is told to take out may always go."
        ),
    )
    mode: Literal["static_control", "agent_control", "both"] = Field(
        default="static_control",
        title="Mode",
        description=(
            "Who recalls. static_control: memory is picked and shown during a reply, as upstream does, and list_tools() is "
            "empty. agent_control: nothing is shown by itself; list_tools() gives the agent tools to search and to write "
            "with. both: both. The index stands in the prompt in every mode."
        ),
    )
    write_permission: Literal["inherit", "ask", "allow", "deny"] = Field(
        default="inherit",
        title="Write Permission",
        description=(
            "Whether tools may write to the memory: those of list_tools(), and Write, Edit and every other tool that takes a "
            "path, however it is spelled; not a shell. inherit: what AgentScope's rules say to a Write in the memory "
            "directory. ask: a person confirms each call, also in bypass mode. allow: memory files and MEMORY.md are "
            "written without a question, nothing else is. deny: nothing is written."
        ),
    )
    secrets: Literal["refuse", "redact", "ask", "allow"] = Field(
        default="refuse",
        title="Secrets",
        description=(
            "What is done when a write would put a key, token or password into a memory. Unless allowed, those that a "
            "person wrote by hand are not shown to a model either."
        ),
    )
    write_back: Literal["off", "extract"] = Field(
        default="off",
        title="Write-back",
        description=(
            "extract: what a completed reply taught is noted in memory by a model, without the agent: one call to extract "
            "and, where something like it is known, one to decide what becomes of it."
        ),
    )
    write_back_model: SkipJsonSchema[ChatModelBase | None] = Field(
        default=None, title="Write-back Model", description="Model that learns from replies; the agent's own when None."
    )
    write_back_review: Literal["auto", "propose"] = Field(
        default="auto",
        title="Write-back Review",
        description="propose: what was learnt waits in .proposals/ of the memory directory until a person accepts it.",
    )
    await_write: bool = Field(
        default=False,
        title="Await Write",
        description="Whether a reply ends only when what it taught was written. Its text is streamed before either way.",
    )
    language: Literal["en", "zh"] = Field(
        default="en", title="Language", description="Language of the built-in instructions."
    )
    on_error: Literal["continue", "raise"] = Field(
        default="continue",
        title="On Error",
        description="Whether a reply goes on without memory when memory fails. Logged and on the receipt either way.",
    )

    @property
    def recalls(self) -> bool:
        """Whether memory files are picked and shown by themselves."""
        return self.retrieval_async and self.mode != "agent_control"

    @property
    def hides_secrets(self) -> bool:
        """Whether keys and passwords that stand in memory stay out of what a model is shown."""
        return self.secrets != "allow"

    @property
    def retention(self) -> Retention:
        """How much history is kept."""
        return Retention(self.history_max_age_days, self.history_max_bytes)

    @property
    def write_policy(self) -> WritePolicy:
        """What the guards let pass."""
        return WritePolicy(losses=self.losses, secrets=self.secrets)

    @model_validator(mode="before")
    @classmethod
    def _speak(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("language") == "zh":
            return {**{field: load_prompt(f"{field}.zh") for field in _TRANSLATED}, **data}
        return data
