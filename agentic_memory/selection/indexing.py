"""Turn documents into a segment.

Texts are collected and turned into terms batch by batch, and terms into postings by sorting: per word there is one look
into a dictionary, and no other step in Python. A batch and a block are what one call into C works on while no other
thread runs, so they are kept short.
"""

import posixpath
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from agentic_memory.selection.passages import find_headings, split_parts, split_passages
from agentic_memory.selection.postings import Ints, Longs, Postings, Segment, count_keys, make_keys
from agentic_memory.selection.vocabulary import Vocabulary

if TYPE_CHECKING:
    from agentic_memory.document import Document

NAME_WEIGHT: Final = 3
DESCRIPTION_WEIGHT: Final = 2
HEADING_WEIGHT: Final = 2

BATCH_CHARS: Final = 32_768
BLOCK_TERMS: Final = 131_072


class SegmentWriter:
    """Collects files and turns them into a segment."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._filenames: list[str] = []
        self._documents: list[Document] = []
        self._first_part = array("i", [0])
        self._file_of = array("i")
        self._first_passage = array("i", [0])
        self._starts = array("i")
        self._ends = array("i")
        self._parts = _Rows()
        self._passages = _Rows()
        self._waiting: list[str] = []
        self._waiting_chars = 0
        self._texts = 0
        self._terms: list[Ints] = []
        self._lengths: list[Ints] = []

    def add(self, filename: str, document: "Document") -> None:
        """Add one file."""
        stem, _ = posixpath.splitext(filename)
        names, descriptions = [document.name] * NAME_WEIGHT, [document.description] * DESCRIPTION_WEIGHT
        header = self._read("\n".join([*names, *descriptions, document.type, stem]))
        body = document.body
        headings = find_headings(body)
        for part in split_parts(body, headings):
            titles = [*part.path, *(item.title for item in headings if part.start <= item.start < part.end)]
            texts = [header, self._read("\n".join(titles * (HEADING_WEIGHT - 1)))] if titles else [header]
            for start, end in split_passages(body, part, headings):
                own = self._read(body[start:end])
                texts.append(own)
                self._passages.add([header, own])
                self._starts.append(start)
                self._ends.append(end)
            self._parts.add(texts)
            self._file_of.append(len(self._filenames))
            self._first_passage.append(len(self._starts))
        self._filenames.append(filename)
        self._documents.append(document)
        self._first_part.append(len(self._file_of))

    def _read(self, text: str) -> int:
        """Take a text in, and return its number."""
        self._waiting.append(text)
        self._waiting_chars += len(text)
        if self._waiting_chars > BATCH_CHARS:
            self._flush()
        self._texts += 1
        return self._texts - 1

    def _flush(self) -> None:
        terms, lengths = self._vocabulary.add_texts(self._waiting)
        self._terms.append(terms)
        self._lengths.append(lengths)
        self._waiting, self._waiting_chars = [], 0

    def build(self) -> Segment:
        """Return the segment."""
        self._flush()
        terms, lengths = np.concatenate(self._terms), np.concatenate(self._lengths)
        return Segment(
            filenames=tuple(self._filenames),
            documents=tuple(self._documents),
            first_part=_as_array(self._first_part),
            file_of=_as_array(self._file_of),
            first_passage=_as_array(self._first_passage),
            starts=_as_array(self._starts),
            ends=_as_array(self._ends),
            parts=self._parts.build(terms, lengths),
            passages=self._passages.build(terms, lengths),
        )


class _Rows:
    """Rows of one level, and the numbers of the texts that each has."""

    def __init__(self) -> None:
        self._texts = array("i")
        self._counts = array("i")

    def add(self, texts: list[int]) -> None:
        """Add one row, of one text at least."""
        self._texts.extend(texts)
        self._counts.append(len(texts))

    def build(self, terms: Ints, lengths: Ints) -> Postings:
        """Return the postings of the rows: ``terms`` are those of all texts in order, ``lengths`` how many each has."""
        texts, counts = _as_array(self._texts), _as_array(self._counts)
        rows = np.arange(len(counts), dtype=np.int32).repeat(counts)
        sizes = lengths[texts]
        starts = np.cumsum(lengths, dtype=np.int64)[texts] - sizes
        ends = np.cumsum(sizes, dtype=np.int64)
        keys: Longs = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
        for first, last in pairwise([0, *_cut(ends)]):
            here = sizes[first:last]
            begin, end = int(ends[first] - sizes[first]), int(ends[last - 1])
            offsets = np.repeat(starts[first:last] - (ends[first:last] - here), here)
            keys[begin:end] = make_keys(terms[offsets + np.arange(begin, end)], np.repeat(rows[first:last], here))
        row_lengths = np.diff(ends[np.cumsum(counts) - 1], prepend=0).astype(np.int32)
        keys.sort()
        return count_keys(row_lengths, keys)


def _cut(ends: Longs) -> list[int]:
    """Return where blocks of about ``BLOCK_TERMS`` end, in entries."""
    if not len(ends):
        return []
    cuts = ends.searchsorted(np.arange(BLOCK_TERMS, int(ends[-1]), BLOCK_TERMS)) + 1
    found: list[int] = np.unique(np.append(cuts, len(ends))).tolist()
    return found


def _as_array(values: "array[int]") -> Ints:
    return np.array(values, dtype=np.int32)
