import pytest

from agentic_memory.document import parse_document
from agentic_memory.selection.lexical import LexicalIndex, first_of, stands_out
from agentic_memory.selection.relations import neighbours_of, successor_of, with_neighbour
from agentic_memory.store import MemoryStore


def memory(**successors):
    return {
        f"{name}.md": (None, parse_document(f"---\nname: n\nsuperseded_by: {successor}\n---\nx".encode()))
        for name, successor in successors.items()
    }


def test_a_chain_is_followed_to_its_end():
    documents = memory(a="b.md", b="./C.md", c="[[d]]", d="")
    assert successor_of(documents, "a.md") == "d.md"
    assert successor_of(documents, "d.md") == "d.md"


def test_a_ring_ends_and_a_missing_successor_is_not_followed():
    documents = memory(a="b.md", b="a.md", c="nowhere.md", d="d.md")
    assert successor_of(documents, "a.md") == "b.md"
    assert successor_of(documents, "c.md") == "c.md"
    assert successor_of(documents, "d.md") == "d.md"


def linked(relates_to="", body="", **others):
    first = f"---\nname: boat\ndescription: Where the boat lies\nrelates_to: {relates_to}\n---\n{body}"
    files = {name: f"---\nname: {name}\n---\n{text}" for name, text in others.items()}
    return {f"{name}.md": (None, parse_document(text.encode())) for name, text in ({"boat": first} | files).items()}


def ranked(documents, query):
    index = LexicalIndex()
    index.update(documents)
    return with_neighbour(documents, index.search(query, limit=1), query)


@pytest.mark.parametrize(
    ("relates_to", "body"),
    [
        ("harbour_office.md", ""),
        ("[harbour_office.md, nowhere.md]", ""),
        ('["[[harbour office]]"]', ""),
        ("", "See [[harbour_office]]."),
        ("", "See [[Harbour-Office|the office]]."),
        ("", "See [[harbour office#hours]] and [[boat]]."),
    ],
)
def test_a_neighbour_is_named_in_the_frontmatter_or_linked_in_the_text(relates_to, body):
    assert neighbours_of(linked(relates_to, body, harbour_office="x"), "boat.md") == ["harbour_office.md"]


@pytest.mark.parametrize("body", ["", "See [[nowhere]].", "`[[harbour_office]]`", "[[boat]]", "[[ ]]", "[[" * 2000])
def test_what_links_to_no_other_file_has_no_neighbours(body):
    assert neighbours_of(linked("", body, harbour_office="x"), "boat.md") == []


def test_a_linked_file_that_has_what_the_first_lacks_comes_with_it():
    documents = linked("office.md, crew.md", "Pier nineteen.", office="Telephone 555 0134", crew="Anna and Ben")
    hits = ranked(documents, "where does the boat lie, and its telephone")
    assert [(hit.filename, hit.via) for hit in hits] == [("boat.md", ""), ("office.md", "boat.md")]
    assert hits[1].passage == "Telephone 555 0134"
    assert stands_out(hits)
    assert first_of(hits) == tuple(hits)
    assert [hit.filename for hit in ranked(documents, "where does the boat lie")] == ["boat.md"]


def test_a_link_in_the_passage_that_answers_is_followed():
    filler = "\n\n".join(f"Entry {number} of the log, a calm day at sea with nothing to tell." for number in range(60))
    body = f"The boat lies at pier nineteen, keys with [[crew]].\n\n{filler}\n\nSold by [[dealer]]."
    documents = linked("", body, crew="Anna and Ben", dealer="Closed on Mondays")
    assert [hit.filename for hit in ranked(documents, "where does the boat lie")] == ["boat.md", "crew.md"]


async def test_search_says_what_a_file_is_there_for(tmp_path):
    store = MemoryStore(workdir=str(tmp_path))
    root = tmp_path / "Memory"
    root.mkdir()
    (root / "tea.md").write_text("---\nname: tea\nsuperseded_by: coffee.md\n---\nLikes sencha tea from [[shop]].")
    (root / "coffee.md").write_text("---\nname: coffee\n---\nDrinks espresso only, since May.")
    (root / "shop.md").write_text("---\nname: shop\n---\nLin on Main Street.")
    matches = await store.search("sencha tea")
    assert [(match.filename, match.because) for match in matches] == [
        ("coffee.md", "supersedes tea.md"),
        ("shop.md", "linked from tea.md"),
    ]
    assert matches[0].passage == "Drinks espresso only, since May."
