"""``python -m agentic_memory.cli``."""

from agentic_memory.cli.app import main

if __name__ == "__main__":
    main()
