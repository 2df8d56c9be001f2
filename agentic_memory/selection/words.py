"""Turn text into the terms that are indexed and searched.

Latin, Cyrillic and other spaced scripts give one stemmed term per word; identifiers give their parts as well
(``getUserName``: getusername, get, user, name). Scripts that do not put spaces between words (Chinese, Japanese,
Korean particles, Thai ...) give overlapping pairs of characters: pairs need no dictionary, so a name no dictionary
has is found too.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Final

from agentic_memory.selection.stemming import stem
from agentic_memory.selection.stopwords import ENGLISH, split_function_words

MAX_WORD_CHARS: Final = 64
"""A longer run is no word (base64, a hash): only its beginning is a term."""

UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao; Myanmar; Khmer
    "\u3005\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7af"  # Hangul syllables
    "\U00020000-\U0003ffff"  # Han, supplementary planes
)
# A number goes on over one joint: a version, a date, a time of day. Tried only after a digit, hence the look-behind.
_JOINED: Final = r"(?:(?<=[0-9])[.:/\-][0-9]+)*"
_ASCII_CHUNK: Final = re.compile(rf"[A-Za-z0-9_]+{_JOINED}")
_CHUNK: Final = re.compile(rf"[{UNSPACED}]+|[^\W{UNSPACED}]+{_JOINED}")
_BLANKS: Final = frozenset(code for code in range(128) if not chr(code).isalnum() and chr(code) not in "_.:/-")
_STARTS_UNSPACED: Final = re.compile(rf"[{UNSPACED}]")
_TRAILING: Final = (b". ", b": ")
"""Joints that join nothing. Without them the last word of a sentence is the same piece as any other."""
_ACCENTED: Final = re.compile("[\u00c0-\u024f\u0370-\u052f\u1e00-\u1fff\u0300-\u036f]")
_COMBINING: Final = re.compile("[\u0300-\u036f]+")
_UNDECOMPOSED: Final = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "æ": "ae", "œ": "oe"})
_JOINT: Final = re.compile(r"[.:/\-]")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+")


def fold(text: str) -> str:
    """Return ``text`` with full-width forms and accents folded. Case stays: it shows where identifiers split."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    if _ACCENTED.search(text):
        bare = _COMBINING.sub("", unicodedata.normalize("NFKD", text))
        text = unicodedata.normalize("NFC", bare).translate(_UNDECOMPOSED)
    return text


def split_chunks(text: str) -> list[str]:
    """Return the runs of folded ``text`` that hold terms: words, identifiers, numbers, unspaced runs."""
    return (_ASCII_CHUNK if text.isascii() else _CHUNK).findall(text)


def split_texts(texts: Sequence[str], *, end: str) -> list[str]:
    """Return the texts, each followed by ``end``, in pieces that no chunk reaches across.

    Rough, and many times as fast as chunks: the work is done on all texts at once. ``end`` is one ASCII character, and
    a blank where it comes in a text.
    """
    folded = [fold(text.replace(end, " ")) for text in texts]
    joined = f" {end} ".join([*folded, ""])
    table = bytes(code if code == ord(end) else 32 if code in _BLANKS else code for code in range(256))
    # On bytes, since str.translate looks every character up by itself. Only ASCII is looked at: UTF-8 keeps it apart.
    plain = joined.encode("utf-8", "surrogatepass").translate(table)
    for joint in _TRAILING:
        plain = plain.replace(joint, b" ")
    return plain.decode("utf-8", "surrogatepass").split()


def is_unspaced(chunk: str) -> bool:
    """Tell whether ``chunk`` is of a script without spaces between words."""
    return _STARTS_UNSPACED.match(chunk) is not None


def pair_up(run: str) -> list[str]:
    """Return the overlapping character pairs of an unspaced run; a single character stands for itself."""
    return [first + second for first, second in pairwise(run)] if len(run) > 1 else [run]


def chunk_terms(chunk: str) -> list[str]:
    """Return the terms of one chunk as it is indexed."""
    if is_unspaced(chunk):
        return pair_up(chunk)
    chunk = chunk[:MAX_WORD_CHARS]
    if not chunk.isalnum() and _JOINT.search(chunk):
        return _number_terms(chunk)
    whole = chunk.casefold()
    parts = _PART.findall(chunk)
    if len(parts) < 2:
        return [stem(parts[0].casefold() if parts else whole)]
    return list(dict.fromkeys([whole.strip("_"), *(stem(part.casefold()) for part in parts)]))


def _number_terms(chunk: str) -> list[str]:
    # A date or version is one term, and its longer parts too: "2024" finds 2024-05-01.
    whole = chunk.lstrip("vV")
    return [whole, *(part for part in _JOINT.split(whole) if len(part) > 1)]


@lru_cache(maxsize=256)
def query_terms(text: str) -> tuple[str, ...]:
    """Return the distinct terms to search for, in order.

    Words that carry no subject are left out, unless there are no others ("who am I").
    """
    return content_terms(text) or tuple(dict.fromkeys(chain.from_iterable(map(chunk_terms, split_chunks(fold(text))))))


def all_terms(text: str) -> frozenset[str]:
    """Return the terms of ``text`` as they are indexed."""
    return frozenset(chain.from_iterable(map(chunk_terms, split_chunks(fold(text)))))


def content_terms(text: str) -> tuple[str, ...]:
    """Return the distinct terms of ``text`` that carry a subject, in order."""
    terms: dict[str, None] = {}
    for chunk in split_chunks(fold(text)):
        if is_unspaced(chunk):
            # Splitting at function words keeps "什么茶" from hiding the tea in a pair that no note has.
            for run in split_function_words(chunk):
                terms.update(dict.fromkeys(pair_up(run)))
        elif chunk.casefold() not in ENGLISH:
            terms.update(dict.fromkeys(chunk_terms(chunk)))
    return tuple(terms)
