"""Fences around memory text, so that a model can tell reference data from instructions."""

from hashlib import sha256
from typing import Final

FENCE_ID_DIGITS: Final = 16
"""64 bits: a text that holds the hash of itself cannot be found by trying."""


def fence_id(text: str) -> str:
    """Return a mark that cannot occur in ``text``: its own hash.

    The closing tag carries it, so nothing inside the text can close the fence; and equal text gives an equal fence,
    which keeps a provider's prefix cache valid.
    """
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:FENCE_ID_DIGITS]


def as_attribute(value: str) -> str:
    """Make ``value`` safe between double quotes in a tag, on one line."""
    one_line = " ".join(printable(value).split())
    return one_line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def printable(text: str) -> str:
    r"""Return ``text`` as a model or a terminal can take it: ``\\n`` line ends, no BOM, no undecodable bytes."""
    whole = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return whole.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
