"""Numbers for terms, and the terms near a word that no file has."""

from collections.abc import Iterator, Sequence
from itertools import chain
from string import ascii_lowercase
from typing import Final

import numpy as np

from agentic_memory.selection.postings import Ints
from agentic_memory.selection.stemming import stem
from agentic_memory.selection.words import chunk_terms, is_unspaced, split_chunks, split_texts

MIN_TYPO_CHARS: Final = 5
"""A shorter unknown word has too many neighbours to guess which one was meant."""

MAX_KEPT_CHARS: Final = 24
"""A longer piece (a clause of Chinese, a URL) hardly comes twice."""
MAX_KEPT_PIECES: Final = 200_000
"""About 30 MB."""


_END: Final = "\0"
"""Stands between texts. In a text it is a blank."""
_END_CODE: Final = -1


class _PieceCodes(dict[str, int]):
    """Piece of text to a code, kept for the pieces that come again, so that indexing runs at the speed of ``map``.

    A code from 0 on is the number of the piece's one term; from -2 down it stands for the terms in ``several``.
    """

    def __init__(self, numbers: dict[str, int], pairs: dict[str, list[int]]) -> None:
        super().__init__({_END: _END_CODE})
        self.several: list[tuple[int, ...]] = []
        self._numbers = numbers
        self._pairs = pairs
        self._passing: list[str] = []

    def __missing__(self, piece: str) -> int:
        if piece.isascii() and piece.isalpha() and piece.islower() and len(piece) <= MAX_KEPT_CHARS:
            code = self._number(stem(piece))  # what the general way comes to, and most pieces are
        else:
            terms = tuple([self._number(term) for chunk in split_chunks(piece) for term in chunk_terms(chunk)])
            if len(terms) == 1:
                code = terms[0]
            else:
                code = -2 - len(self.several)
                self.several.append(terms)
        if len(piece) > MAX_KEPT_CHARS:
            self._passing.append(piece)
        self[piece] = code
        return code

    def tidy(self) -> None:
        """Forget what does not come again, and everything when it has become too much."""
        for piece in self._passing:
            del self[piece]
        self._passing.clear()
        if len(self) + len(self.several) > MAX_KEPT_PIECES:
            self.clear()
            self.several.clear()
            self[_END] = _END_CODE

    def _number(self, term: str) -> int:
        number = self._numbers.get(term)
        if number is None:
            number = self._numbers[term] = len(self._numbers)
            if is_unspaced(term):
                for character in set(term):
                    self._pairs.setdefault(character, []).append(number)
        return number


class Vocabulary:
    """Every term ever indexed, by number. One thread writes at a time; reading needs no lock."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._pairs: dict[str, list[int]] = {}
        self._codes = _PieceCodes(self._numbers, self._pairs)

    def __len__(self) -> int:
        return len(self._numbers)

    def add_texts(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the term numbers of all texts in order, and how many each text has; new terms get numbers."""
        pieces = split_texts(texts, end=_END)
        codes = np.fromiter(map(self._codes.__getitem__, pieces), np.int32, len(pieces))
        odd = codes < _END_CODE
        if odd.any():
            several = [self._codes.several[-2 - code] for code in codes[odd].tolist()]
            sizes = np.ones(len(codes), np.int32)
            sizes[odd] = np.fromiter(map(len, several), np.int32, len(several))
            codes, odd = codes.repeat(sizes), odd.repeat(sizes)
            codes[odd] = np.fromiter(chain.from_iterable(several), np.int32, int(np.count_nonzero(odd)))
        self._codes.tidy()
        ends = np.flatnonzero(codes == _END_CODE)
        lengths = np.diff(ends, prepend=-1) - 1
        return codes[codes != _END_CODE], lengths.astype(np.int32)

    def find(self, term: str) -> int | None:
        """Return the number of ``term``, or None when no file ever had it."""
        return self._numbers.get(term)

    def find_containing(self, character: str) -> tuple[int, ...]:
        """Return the terms of unspaced script that hold ``character``."""
        return tuple(self._pairs.get(character, ()))

    def find_misspelt(self, term: str) -> tuple[int, ...]:
        """Return the terms one edit away from ``term``: a letter more, less, other, or two swapped."""
        if len(term) < MIN_TYPO_CHARS or not term.isascii() or not term.isalpha():
            return ()
        found = (self._numbers.get(edit) for edit in _edits(term))
        return tuple(dict.fromkeys(number for number in found if number is not None))


def _edits(word: str) -> Iterator[str]:
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        if tail:
            yield head + tail[1:]
            for letter in ascii_lowercase:
                yield head + letter + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in ascii_lowercase:
            yield head + letter + tail
