"""Every prompt of the package, as flat Markdown files."""

from functools import cache
from importlib.resources import files


@cache
def load_prompt(name: str) -> str:
    """Return the text of ``prompts/<name>.md`` without its final newline."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")
