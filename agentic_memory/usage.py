"""What the system prompt says of the memory tools, to an agent that has them."""

import re
from typing import Final

from agentscope.agent import Agent

from agentic_memory.parameters import MemoryParameters
from agentic_memory.prompts import load_prompt
from agentic_memory.tools.memory_tool import MemoryTool

_TOOL: Final = re.compile(r"`(Memory\w+)`")


async def instructions_for(agent: Agent | None, parameters: MemoryParameters) -> str:
    """Return the memory instructions, and what the tools are for that the agent's toolkit really has."""
    instructions = parameters.memory_instructions
    if agent is None or parameters.mode == "static_control":
        return instructions
    heading, *lines = load_prompt(f"tool_note.{parameters.language}").splitlines()
    named = dict.fromkeys(name for line in lines for name in _TOOL.findall(line))
    held = {name for name in named if isinstance(await agent.toolkit.get_tool(name), MemoryTool)}
    kept = [line for line in lines if held.issuperset(_TOOL.findall(line))]
    return "\n".join([f"{instructions}\n", heading, *kept]) if kept else instructions
