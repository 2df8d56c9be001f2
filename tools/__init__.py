"""What the model can call."""

from agentic_memory.tools.edit import Edit
from agentic_memory.tools.read import Read
from agentic_memory.tools.write import Write

__all__ = ["Edit", "Read", "Write"]
