"""Numbers for terms, and the terms near a word that no file has."""

from array import array
from collections.abc import Iterator
from itertools import chain
from string import ascii_lowercase
from typing import Final

from agentic_memory.selection.stemming import stem
from agentic_memory.selection.words import chunk_terms, fold, is_unspaced, split_chunks, split_spaced

MIN_TYPO_CHARS: Final = 5
"""A shorter unknown word has too many neighbours to guess which one was meant."""

MAX_KEPT_CHARS: Final = 24
"""A longer piece (a clause of Chinese, a URL) hardly comes twice."""
MAX_KEPT_PIECES: Final = 200_000
"""About 30 MB."""


class _PieceNumbers(dict[str, tuple[int, ...]]):
    """Piece of text to term numbers, kept for the pieces that come again, so that indexing runs at the speed of ``map``."""

    def __init__(self, numbers: dict[str, int], pairs: dict[str, list[int]]) -> None:
        super().__init__()
        self._numbers = numbers
        self._pairs = pairs

    def __missing__(self, piece: str) -> tuple[int, ...]:
        if piece.isascii() and piece.isalpha() and piece.islower() and len(piece) <= MAX_KEPT_CHARS:
            found: tuple[int, ...] = (self._number(stem(piece)),)  # what the general way comes to, and most pieces are
        else:
            found = tuple([self._number(term) for chunk in split_chunks(piece) for term in chunk_terms(chunk)])
        if len(piece) <= MAX_KEPT_CHARS:
            if len(self) >= MAX_KEPT_PIECES:
                self.clear()
            self[piece] = found
        return found

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
        self._pieces = _PieceNumbers(self._numbers, self._pairs)

    def __len__(self) -> int:
        return len(self._numbers)

    def add_text(self, text: str) -> "array[int]":
        """Return the term numbers of ``text`` in order, numbering new terms."""
        pieces = split_spaced(fold(text))
        return array("i", list(chain.from_iterable(map(self._pieces.__getitem__, pieces))))

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
