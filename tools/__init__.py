"""What the model can call."""

from agentic_memory.tools.edit import Edit
from agentic_memory.tools.memory_add import MemoryAdd
from agentic_memory.tools.memory_forget import MemoryForget
from agentic_memory.tools.memory_search import MemorySearch
from agentic_memory.tools.memory_update import MemoryUpdate
from agentic_memory.tools.read import Read
from agentic_memory.tools.write import Write

__all__ = ["Edit", "MemoryAdd", "MemoryForget", "MemorySearch", "MemoryUpdate", "Read", "Write"]
