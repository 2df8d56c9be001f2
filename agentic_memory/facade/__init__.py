"""The calls that Mem0's users know, on Markdown files."""
