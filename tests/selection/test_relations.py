from agentic_memory.document import parse_document
from agentic_memory.selection.relations import successor_of


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
