from types import SimpleNamespace

import pytest
from scripted import ScriptedModel

from agentic_memory.document import parse_document
from agentic_memory.prompts import load_prompt
from agentic_memory.selection import LexicalSelector, ModelSelector, Request
from agentic_memory.selection.lexical import LexicalIndex
from agentic_memory.tokens import estimate_tokens


def request(files: dict[str, str], query: str, **more) -> Request:
    documents = {
        name: (SimpleNamespace(version=text, mtime_ns=at), parse_document(text.encode()))
        for at, (name, text) in enumerate(files.items(), 1)
    }
    words = LexicalIndex()
    words.update(documents)
    return Request(query=query, limit=5, documents=documents, words=lambda: words, **more)


MANY = {f"note{number:03}.md": f"---\nname: n\ndescription: d\n---\nAbout subject{number}." for number in range(300)}


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_what_the_model_is_told_beside_the_candidates_takes_under_300_tokens(language: str) -> None:
    model = ScriptedModel(selections=[[]])
    instructions = load_prompt(f"retrieval_instructions.{language}")
    await ModelSelector(model, instructions=instructions).select(request({"a.md": "Tea is green."}, "Which tea?"))
    [call] = model.structured
    told = call.text.replace("- (1) a.md", "").replace("Which tea?", "")
    assert estimate_tokens(told) + estimate_tokens(str(call.schema)) < 300


async def test_the_best_of_all_files_are_candidates_and_then_the_newest() -> None:
    model = ScriptedModel(selections=[["note000.md"]])
    selector = ModelSelector(model, max_candidates=10)
    chosen = await selector.select(request(MANY, "What was said on subject0?"))
    text = model.structured[0].text
    assert "note000.md" in text
    assert "note299.md" in text
    assert text.count(".md") == 10
    assert chosen.filenames == ("note000.md",)
    assert "About subject0." in chosen.hits[0].passage


async def test_it_chooses_from_the_selection_that_is_brought_along() -> None:
    asked = request(MANY, "subject7")

    async def first():
        return await LexicalSelector().select(request(MANY, "subject250"))

    model = ScriptedModel(selections=[[]])
    await ModelSelector(model, max_candidates=3).select(
        Request(query="subject7", limit=5, documents=asked.documents, words=asked.words, first=first)
    )
    assert "note250.md" in model.structured[0].text


async def test_what_it_costs_is_told_also_when_it_fails() -> None:
    asked = request({"a.md": "Tea."}, "Which tea?")
    with pytest.raises(ConnectionError):
        await ModelSelector(ScriptedModel(selections=[ConnectionError("down")])).select(asked)
    assert asked.spent.calls == 1


async def test_without_any_model_it_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="pass ModelSelector one"):
        await ModelSelector().select(request({"a.md": "Tea."}, "Which tea?"))
