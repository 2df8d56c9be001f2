"""Every prompt, as a flat Markdown file beside this module."""

from functools import cache
from importlib.resources import files


@cache
def load_prompt(name: str) -> str:
    """Return the text of the prompt ``name`` (without ``.md``); a missing one raises ``FileNotFoundError``."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
