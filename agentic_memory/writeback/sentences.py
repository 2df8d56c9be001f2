"""What a text says, sentence by sentence, for comparing facts whatever their spelling."""

import re
import unicodedata
from typing import Final

_END: Final = re.compile(r"[\n。！？；;]+|[.!?]+(?=\s|$)")
_MARKS: Final = re.compile(r"^[\s>*+\-#\d.)\]]*\s|[*_`“”\"'‘’]+")
_WORD: Final = re.compile(r"[^\W_]+")


def sentences_of(text: str) -> frozenset[str]:
    """Return the sentences of a text without case, marks and spacing."""
    whole = unicodedata.normalize("NFKC", text).casefold()
    found = (" ".join(_MARKS.sub("", f"{part} ").split()).strip(" .,:;!?…") for part in _END.split(whole))
    return frozenset(sentence for sentence in found if sentence)


def says(text: str, fact: str) -> bool:
    """Tell whether ``text`` holds every sentence of ``fact`` as a sentence of its own.

    As a whole sentence, since "likes Vim" stands inside "no longer likes Vim".
    """
    wanted = sentences_of(fact)
    return bool(wanted) and wanted <= sentences_of(text)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text; of a script without spaces, its pairs of characters."""
    words: set[str] = set()
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word.isascii() or len(word) < 3:
            words.add(word)
        else:
            words.update(word[at : at + 2] for at in range(len(word) - 1))
    return frozenset(words)


def share_kept(old: str, new: str) -> float:
    """Return the share of the words of ``old`` that ``new`` has; 1 for a text without words."""
    words = words_of(old)
    return len(words & words_of(new)) / len(words) if words else 1.0
