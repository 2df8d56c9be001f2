"""Long-term memory for agents: Markdown an agent writes, a person edits, and no sandbox can lose."""
