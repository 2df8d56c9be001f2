"""Whether new text was copied from somewhere: long runs of it stand in a source word for word."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

RUN_CHARS: Final = 32
"""Length of a run that counts: five English words, which two writers do not choose alike by chance."""
MIN_COPIED_CHARS: Final = 80
MIN_COPIED_SHARE: Final = 0.5
"""Of the new text. Less is a name, a command or an address among an agent's own words."""
MAX_SOURCE_CHARS: Final = 200_000
"""Of all sources together, the last ones first."""

_BLANKS: Final = re.compile(r"\s+")


def is_copied(before: str, after: str, sources: Sequence[str]) -> bool:
    """Tell whether what is new in ``after`` stands for the most part in ``sources``; layout and case do not count."""
    known = Counter(line.strip() for line in before.splitlines())
    new = _plain("\n".join((Counter(line.strip() for line in after.splitlines()) - known).elements()))
    if len(new) < MIN_COPIED_CHARS or not sources:
        return False
    runs: set[str] = set()
    room = MAX_SOURCE_CHARS
    for source in reversed(sources):
        text = _plain(source[-room:])
        runs.update(text[at : at + RUN_CHARS] for at in range(len(text) - RUN_CHARS + 1))
        room -= len(source)
        if room <= 0:
            break
    covered = done = 0
    for at in range(len(new) - RUN_CHARS + 1):
        if new[at : at + RUN_CHARS] in runs:
            covered += at + RUN_CHARS - max(at, done)
            done = at + RUN_CHARS
    return covered >= MIN_COPIED_CHARS and covered >= len(new) * MIN_COPIED_SHARE


def _plain(text: str) -> str:
    return _BLANKS.sub(" ", text).casefold().strip()
