"""The lines of the log: what is written is read back, and nothing that stands there can do harm."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.history.entries import Entry, Version, parse_entries, render_entries, versions_of

hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)
times = st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
entries = st.builds(
    Entry,
    st.builds(
        Version,
        version=st.none() | hashes,
        filename=st.text(st.characters(codec="utf-8")),
        when=times,
        who=st.sampled_from(["agent", "person", "tool", "store", "unknown"]),
        why=st.text(st.characters(codec="utf-8")),
        session=st.text(),
        reply=st.text(),
        size=st.integers(0, 2**40),
        previous=st.none() | hashes,
    ),
    st.none() | times,
    st.none() | st.tuples(times, st.integers(0, 2**40)),
)
START = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.lists(entries, max_size=5))
def test_what_is_written_is_read_back(written):
    assert parse_entries(render_entries(written)) == (written, [])


@given(st.binary() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps).map(str.encode))
def test_no_bytes_break_the_reader(data):
    found, wrong = parse_entries(data)
    assert len(found) + len(wrong) <= len(data.splitlines())


@pytest.mark.parametrize(
    "wrong",
    [{"size": float("inf")}, {"when": "0001-01-01T00:00:00+23:59"}, {"after": "A" * 64}, {"when": "2026-01-01"}],
)
def test_a_value_out_of_range_makes_the_line_wrong(wrong):
    line = {"file": "a.md", "before": None, "after": None, "size": 1, "when": START.isoformat(), "who": "agent"}
    assert parse_entries(json.dumps(line).encode())[1] == []
    assert parse_entries(json.dumps({**line, **wrong}).encode()) == ([], [1])


def entry(minute, before, after, *, who="store", since=None):
    when = START + timedelta(minutes=minute)
    version = Version(after and after * 64, "a.md", when, who, "changed", "", "", 1, before and before * 64)
    earlier = None if before is None else (when - timedelta(minutes=1), 1)
    return Entry(version, None if since is None else START + timedelta(minutes=since), earlier)


def letters(versions):
    return "".join("-" if one.version is None else one.version[0] for one in versions)


def test_a_noticed_change_that_somebody_recorded_is_told_once():
    both = [entry(1, None, "1"), entry(2, "1", "2"), entry(3, "1", "2", who="unknown", since=1)]
    assert [(one.version[0], one.who) for one in versions_of("a.md", both)] == [("2", "store"), ("1", "store")]


def test_the_same_content_again_later_is_another_version():
    back = [entry(1, None, "1"), entry(2, "1", "2"), entry(5, "2", "1", who="unknown", since=4)]
    assert letters(versions_of("a.md", back)) == "121"


def test_a_version_nobody_saw_come_has_its_place_in_the_gap():
    gap = [entry(1, None, "1"), entry(9, "5", None)]
    assert letters(versions_of("a.md", gap)) == "-51"
    assert versions_of("a.md", gap)[1].why == "found"


def test_other_files_are_not_told():
    assert versions_of("b.md", [entry(1, None, "1")]) == []
