import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from agentic_memory.selection import vectors
from agentic_memory.selection.vectors import VectorCache, as_stored, default_folder


def some(seed: int) -> np.ndarray:
    return as_stored(np.random.default_rng(seed).normal(size=8))


def test_what_was_put_is_there_for_the_next_process_and_for_no_other_model(tmp_path: Path) -> None:
    VectorCache("a", tmp_path).put({"text": some(1)})
    assert np.array_equal(VectorCache("a", tmp_path).get(["text", "other"])["text"], some(1))
    assert VectorCache("a", tmp_path).get(["other"]) == {}
    assert VectorCache("b", tmp_path).get(["text"]) == {}


def test_a_fresh_vector_is_what_is_read_back(tmp_path: Path) -> None:
    fresh = as_stored([3.0, 4.0])
    cache = VectorCache("a", tmp_path)
    cache.put({"t": fresh})
    assert np.array_equal(cache.get(["t"])["t"], fresh)
    assert np.linalg.norm(fresh) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("values", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [[1.0], [2.0]]])
def test_what_has_no_direction_is_no_vector(values: list) -> None:
    with pytest.raises(ValueError, match="finite"):
        as_stored(values)


def test_only_the_user_may_read_it(tmp_path: Path) -> None:
    cache = VectorCache("a", tmp_path / "deep" / "vectors")
    cache.put({"t": some(1)})
    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_a_broken_file_is_thrown_away_and_made_anew(tmp_path: Path, damage: bytes) -> None:
    cache = VectorCache("a", tmp_path)
    cache.put({"t": some(1)})
    cache.path.write_bytes(damage)
    assert cache.get(["t"]) == {}
    cache.put({"t": some(2)})
    assert np.array_equal(cache.get(["t"])["t"], some(2))


def test_a_folder_that_cannot_be_made_is_an_empty_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = VectorCache("a", tmp_path / "file" / "vectors")
    cache.put({"t": some(1)})
    assert cache.get(["t"]) == {}


def test_several_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(number: int) -> None:
        cache = VectorCache("a", tmp_path)
        for at in range(5):
            cache.put({f"{number}-{at}": some(at)})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(VectorCache("a", tmp_path).get([f"{n}-{at}" for n in range(4) for at in range(5)])) == 20


def test_the_oldest_give_way_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MAX_ROWS", 3)
    cache = VectorCache("a", tmp_path)
    for number in range(6):
        cache.put({str(number): some(number)})
    assert sorted(cache.get([str(number) for number in range(6)])) == ["3", "4", "5"]


def test_a_vector_of_damaged_bytes_is_not_used(tmp_path: Path) -> None:
    cache = VectorCache("a", tmp_path)
    cache.put({"t": some(1)})
    with sqlite3.connect(cache.path) as database:
        database.execute("UPDATE vectors SET vector = ?", (b"\xff\xff" * 8,))
    database.close()
    assert cache.get(["t"]) == {}


def test_vectors_are_kept_in_the_users_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "agentic-memory" / "vectors"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert default_folder().is_absolute()
