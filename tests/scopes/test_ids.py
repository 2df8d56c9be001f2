"""Ids as directory names, and the templates of the paths made from them."""

import re
import unicodedata
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentic_memory.errors import MissingIdentity, UnsafePath
from agentic_memory.scopes import MAX_NAME_CHARS, TEMPLATES, Identity, PathTemplate, encode_id

IDS = st.text(st.characters(), min_size=1, max_size=60) | st.from_regex(r"[a-zA-Z0-9._=@%/~-]{1,120}", fullmatch=True)
DEVICES = {"con", "prn", "aux", "nul"} | {f"{word}{n}" for word in ("com", "lpt") for n in range(10)}

NASTY = [
    "../alice", "..", ".", "./alice", "/alice", "/", "~", "~root", "alice/", "alice/../bob", "_default", "default",
    "", " ", "alice ", " alice", "alice.", ".alice", "a..b", "a.b", "a\0b", "a\nb", "a\\b", "alice", "Alice", "ALICE",
    "\uff41lice", "\u0430lice", "ali\u0441e", "e\u0301", "\u00e9", "\ufb01x", "fix", "stra\u00dfe", "strasse", "\u0130",
    "i\u0307", "\u1e9e", "ss", "con", "CON", "con.txt", "nul", "com1", "lpt9.log", "a=62", "ab", "a=", "=61", "%61",
    "memory", "Memory", "MEMORY.md", ".history", "x" * 300, "x" * 301, "X" * 300, "\U0001f600", "\ud83d\ude00", "\ud800",
]  # fmt: skip


def decode(name: str) -> str:
    """The proof that short names are injective: there is a way back."""
    raw = re.sub(rb"=([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), name.encode("ascii"))
    return raw.decode("utf-8", "surrogatepass")


def folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


@given(IDS)
@example("a.." * 3)
@example("=-" + "0" * 64)
@example("\ud83d\ude00")
def test_a_name_leads_back_to_its_id_alone_or_says_its_hash(raw):
    name = encode_id(raw)
    if "=-" in name:
        assert len(raw.encode("utf-8", "surrogatepass")) * 3 > MAX_NAME_CHARS
    else:
        assert decode(name) == raw


@given(IDS)
@example("con.a" * 30)
def test_a_name_is_one_plain_visible_part_that_no_disk_changes(raw):
    name = encode_id(raw)
    assert re.fullmatch(r"[a-z0-9=][a-z0-9_@.=-]*", name)
    assert name == folded(name) == unicodedata.normalize("NFD", name)
    assert name.partition(".")[0] not in DEVICES
    assert not name.endswith((".", " "))
    assert ".." not in name
    assert len(name) <= 143


@given(IDS, IDS)
def test_two_ids_never_share_a_directory_on_any_disk(one, other):
    assert (folded(encode_id(one)) == folded(encode_id(other))) == (one == other)


def test_ids_made_to_be_confused_are_not():
    names = {raw: folded(encode_id(raw)) for raw in NASTY if raw}
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("raw", ["alice", "alice@example.com", "550e8400-e29b-41d4-a716-446655440000", "team_7.eu"])
def test_plain_ids_stay_as_they_are(raw):
    assert encode_id(raw) == raw


@pytest.mark.parametrize(
    ("raw", "name"),
    [("Alice", "=41lice"), ("_default", "=5fdefault"), ("../bob", "=2e=2e=2fbob"), ("con", "=63on"), ("a b", "a=20b")],
)
def test_other_ids_can_still_be_read(raw, name):
    assert encode_id(raw) == name


def test_a_long_id_keeps_its_beginning():
    assert encode_id("alice-" * 50).startswith("alice-alice-")


def test_nobody_has_no_directory():
    with pytest.raises(MissingIdentity, match="an id is empty"):
        encode_id("")


# ------------------------------------------------------------------ templates


def test_a_template_is_filled_with_encoded_ids():
    template = PathTemplate("tenants/{project_id}/people/u-{user_id}")
    assert template.fields == ("project_id", "user_id")
    assert template.fill(Identity(user_id="../Bob", project_id="p")) == "tenants/p/people/u-=2e=2e=2f=42ob"


@given(raw=IDS)
def test_no_id_leaves_its_template(raw):
    path = PathTemplate("users/{user_id}/Memory").fill(Identity(user_id=raw))
    head, name, tail = path.split("/")
    assert (head, tail) == ("users", "Memory")
    assert name not in {"", ".", ".."}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("users/{name}", r"there is no \{name\}; the fields are \{user_id\}"),
        ("users/{}", r"there is no \{\}"),
        ("users/{user_id!r}", "there is no"),
        ("users/{user_id", "brace"),
        ("users/user_id}", "brace"),
        ("{user_id}-{agent_id}", "two ids in one part"),
        ("", "relative to the working directory"),
        ("/users/{user_id}", "relative"),
        ("users//{user_id}", "relative"),
        ("../{user_id}", "relative"),
        ("users/./{user_id}", "relative"),
        ("~/{user_id}", "relative"),
        ("users\\{user_id}", "relative"),
        ("users/\0{user_id}", "relative"),
    ],
)
def test_a_template_that_could_go_wrong_is_refused_at_once(text, reason):
    with pytest.raises(UnsafePath, match=reason):
        PathTemplate(text)


@pytest.mark.parametrize("missing", [None, ""])
def test_an_unknown_id_is_an_error_and_no_default(missing):
    with pytest.raises(MissingIdentity, match="needs user_id, which is not known here"):
        PathTemplate(TEMPLATES["user"]).fill(Identity(user_id=missing, session_id="s"))


def test_the_templates_of_the_scopes_never_meet():
    for one, other in combinations(TEMPLATES.values(), 2):
        assert not PathTemplate(f"{one}/Memory").meets(PathTemplate(f"{other}/Memory"))


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("users/{user_id}", "Users/alice", True),
        ("users/{user_id}", "users", True),
        ("{user_id}/Memory", "shared/Memory", True),
        ("{user_id}/Memory", "_shared/Memory", False),
        ("{user_id}/Memory", "{user_id}/sessions/Memory", False),
        ("{user_id}/Memory", "{user_id}/memory/Memory", True),
        ("{user_id}", "u-{user_id}", True),
        ("a-{user_id}", "b-{user_id}", False),
        ("a-{user_id}", "a-", False),
        ("{user_id}-a", "{user_id}-b", False),
        ("a-{user_id}", "a-=41", True),
        ("caf\u00e9/{user_id}", "cafe\u0301/{agent_id}", True),
    ],
)
def test_templates_that_could_meet_are_known(one, other, meet):
    assert PathTemplate(one).meets(PathTemplate(other)) is meet
    assert PathTemplate(other).meets(PathTemplate(one)) is meet
