"""``HybridSelector`` over a real index, a real cache on disk and an embedding model whose vectors can be foreseen."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from concepts import DIMENSIONS, ConceptModel

from agentic_memory.document import parse_document
from agentic_memory.selection import HybridSelector, LexicalSelector, Request, Selection, by_meaning, embedding
from agentic_memory.selection.embedding import EmbeddingFailed
from agentic_memory.selection.lexical import LexicalIndex

FILES = {
    "garage.md": "The automobile is parked in the second row, behind the bakery.",
    "health.md": "Our physician has her office in Mill Street.",
    "drinks.md": "用户喜欢绿茶",
    "deploy.md": "Never deploy the billing service on a Friday.",
}


class Record:
    def __init__(self, version: str, mtime_ns: int = 0) -> None:
        self.version = version
        self.mtime_ns = mtime_ns


class Memory:
    """A memory as selectors see it: files that change, an index that follows, and what is kept."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = dict(files)
        self.kept: dict[str, Any] = {}
        self._words = LexicalIndex()

    def ask(self, query: str, *, limit: int = 5, patience: float = 10.0) -> Request:
        documents = {
            name: (Record(sha256(text.encode()).hexdigest()), parse_document(text.encode(), filename=name))
            for name, text in self.files.items()
        }

        def words() -> LexicalIndex:
            self._words.update(documents)
            return self._words

        return Request(query=query, limit=limit, documents=documents, words=words, kept=self.kept, patience=patience)


@pytest.fixture
def memory() -> Memory:
    return Memory(FILES)


async def ask(selector: HybridSelector, memory: Memory, query: str, **more: Any) -> Selection:
    return await selector.select(memory.ask(query, **more))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [("Where is my car?", "garage.md"), ("Who is my doctor?", "health.md"), ("deploy on Friday", "deploy.md")],
)
async def test_a_question_in_other_words_finds_the_file(
    tmp_path: Path, memory: Memory, query: str, wanted: str
) -> None:
    words = await LexicalSelector().select(memory.ask("Where is my car?"))
    assert words.hits == ()
    chosen = await ask(HybridSelector(ConceptModel(), folder=tmp_path), memory, query)
    assert (chosen.filenames[0], chosen.by, chosen.failed, chosen.waiting) == (wanted, "hybrid", (), 0)


async def test_what_nothing_is_near_to_has_no_answer(tmp_path: Path, memory: Memory) -> None:
    chosen = await ask(HybridSelector(ConceptModel(), folder=tmp_path), memory, "quantum entanglement explained")
    assert chosen.hits == ()


async def test_an_empty_memory_has_no_answer_and_costs_nothing(tmp_path: Path) -> None:
    model = ConceptModel()
    chosen = await ask(HybridSelector(model, folder=tmp_path), Memory({}), "Where is my car?")
    assert (chosen.hits, chosen.failed) == ((), ())


async def test_a_vector_is_made_once_for_all_instances_and_processes(tmp_path: Path, memory: Memory) -> None:
    first, second = ConceptModel(), ConceptModel()
    await ask(HybridSelector(first, folder=tmp_path), memory, "Where is my car?")
    assert set(FILES.values()) <= set(first.asked)
    again = Memory(FILES)  # as another process sees it
    chosen = await ask(HybridSelector(second, folder=tmp_path), again, "Where is my car?")
    assert chosen.filenames == ("garage.md",)
    assert second.asked == ["Where is my car?"]


async def test_of_an_edited_file_only_what_changed_is_embedded_and_the_old_is_gone(tmp_path: Path) -> None:
    body = "\n\n".join(f"Part{number}." for number in range(9))
    memory = Memory({"long.md": f"{body}\n\nThe automobile is red."})
    model = ConceptModel()
    selector = HybridSelector(model, folder=tmp_path)
    assert (await ask(selector, memory, "vehicle")).filenames == ("long.md",)
    model.asked.clear()
    memory.files["long.md"] = f"{body}\n\nThe house is red."
    assert (await ask(selector, memory, "vehicle")).hits == ()
    assert len(model.asked) == 1
    del memory.files["long.md"]
    assert (await ask(selector, memory, "house")).hits == ()


async def test_when_the_model_is_down_words_decide_and_the_selection_says_so(tmp_path: Path, memory: Memory) -> None:
    model = ConceptModel(refuse=lambda _: True)
    selector = HybridSelector(model, folder=tmp_path)
    chosen = await ask(selector, memory, "May I deploy billing on Friday?")
    assert (chosen.filenames, chosen.by) == (("deploy.md",), "lexical")
    [(stage, error)] = chosen.failed
    assert stage == "embed"
    assert "the embedding service is down" in str(error)
    assert chosen.waiting == len(FILES)
    calls = model.calls
    await ask(selector, memory, "May I deploy billing on Friday?")
    assert model.calls == calls, "a model that has just failed is left alone for a while"


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [[1.0] * DIMENSIONS] * (len(texts) + 1),
        lambda texts: [[float("nan")] * DIMENSIONS] * len(texts),
        lambda _: [],
    ],
    ids=["too many", "not numbers", "none"],
)
async def test_a_wrong_answer_is_a_failure_and_nothing_of_it_is_kept(
    tmp_path: Path, memory: Memory, answer: Any
) -> None:
    selector = HybridSelector(ConceptModel(answer=answer), folder=tmp_path)
    chosen = await ask(selector, memory, "May I deploy billing on Friday?")
    assert chosen.by == "lexical"
    assert chosen.failed
    right = HybridSelector(ConceptModel(), folder=tmp_path)
    assert (await ask(right, Memory(FILES), "Where is my car?")).filenames == ("garage.md",)


async def test_one_text_that_cannot_be_embedded_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    files = {**FILES, **{f"{number}.md": f"note {number} on a subject" for number in range(12)}}
    memory = Memory(files)
    model = ConceptModel(refuse=lambda texts: any("physician" in text for text in texts), batch_size=8)
    selector = HybridSelector(model, folder=tmp_path)
    with pytest.raises(EmbeddingFailed, match="down"):
        await selector.embed(memory.ask(""))
    assert set(model.asked) >= set(files.values()) - {FILES["health.md"]}
    calls = model.calls
    chosen = await ask(selector, memory, "Where is my car?")
    assert (chosen.filenames, chosen.by, chosen.waiting) == (("garage.md",), "hybrid", 1)
    assert model.calls <= calls + 3, "the scale and the question; the text is left alone for a while"


async def test_a_reply_does_not_wait_for_a_backlog_and_says_how_much_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_meaning, "SMALL_BACKLOG", 3)
    memory = Memory({**FILES, **{f"{number}.md": f"note {number} on a subject" for number in range(20)}})
    model = ConceptModel()
    selector = HybridSelector(model, folder=tmp_path)
    await selector.select(Memory({"x.md": "x"}).ask("a question"))  # the scale and the question are known from here on
    model.gate.clear()
    chosen = await ask(selector, memory, "a question", patience=60.0)
    assert chosen.waiting == 24
    assert (await ask(selector, memory, "a question", patience=60.0)).waiting == 24
    calls = model.calls
    model.gate.set()
    while (await ask(selector, memory, "a question")).waiting:
        await asyncio.sleep(0.01)
    assert (await ask(selector, memory, "Where is my car?")).filenames[0] == "garage.md"
    assert calls == 4 or model.calls - calls < 6, "one backlog is worked off once"


async def test_what_was_embedded_before_an_interruption_is_not_embedded_again(tmp_path: Path) -> None:
    files = {f"{number}.md": f"note {number} on a subject" for number in range(20)}
    first = ConceptModel(batch_size=4)
    first.refuse = lambda _: len(first.asked) >= 16 + 8  # the probes of the scale, two batches, then no more
    selector = HybridSelector(first, folder=tmp_path)
    await ask(selector, Memory(files), "a question")
    done = set(first.asked) & set(files.values())
    assert 0 < len(done) < 20
    second = ConceptModel(batch_size=4)
    progress: list[tuple[int, int]] = []
    await HybridSelector(second, folder=tmp_path).embed(Memory(files).ask(""), lambda *at: progress.append(at))
    assert set(second.asked) & set(files.values()) == set(files.values()) - done
    assert progress[-1] == (20 - len(done), 20 - len(done))


async def test_a_question_that_takes_too_long_is_answered_by_words(tmp_path: Path, memory: Memory) -> None:
    model = ConceptModel()
    model.gate.clear()
    selector = HybridSelector(model, folder=tmp_path)
    chosen = await ask(selector, memory, "May I deploy billing on Friday?", patience=0.01)
    assert (chosen.filenames, chosen.by) == (("deploy.md",), "lexical")
    assert isinstance(chosen.failed[0][1], TimeoutError)
    while model.calls < 2:  # the files' vectors are being made all the same
        await asyncio.sleep(0.001)
    model.gate.set()
    assert (await ask(selector, memory, "Where is my car?")).filenames == ("garage.md",)
    await selector.aclose()


def test_a_selector_works_in_one_event_loop_after_the_other(tmp_path: Path, memory: Memory) -> None:
    class Plain(ConceptModel):
        async def _call_api(self, inputs: list[str], **kwargs: Any) -> Any:
            self.gate = asyncio.Event()
            self.gate.set()
            return await super()._call_api(inputs, **kwargs)

    selector = HybridSelector(Plain(), folder=tmp_path)
    for _ in range(2):
        assert asyncio.run(ask(selector, memory, "Where is my car?")).filenames == ("garage.md",)


async def test_questions_are_not_kept_on_disk(tmp_path: Path, memory: Memory) -> None:
    await ask(HybridSelector(ConceptModel(), folder=tmp_path), memory, "Where is my car?")
    model = ConceptModel()
    await ask(HybridSelector(model, folder=tmp_path), memory, "Where is my car?")
    assert model.asked == ["Where is my car?"]


async def test_two_models_do_not_share_vectors(tmp_path: Path, memory: Memory) -> None:
    await ask(HybridSelector(ConceptModel(), folder=tmp_path), memory, "Where is my car?")
    other = ConceptModel(name="another", same={})
    chosen = await ask(HybridSelector(other, folder=tmp_path), memory, "Where is my car?")
    assert chosen.hits == ()


async def test_of_files_that_match_alike_the_newer_comes_first(memory: Memory) -> None:
    memory.files = {"a.md": "The tea is green.", "b.md": "The tea is green.", "c.md": "The tea is green."}
    request = memory.ask("green tea")
    for name, age in (("a.md", 3), ("b.md", 9), ("c.md", 1)):
        request.documents[name][0].mtime_ns = age
    assert (await LexicalSelector().select(request)).filenames == ("b.md", "a.md", "c.md")


async def test_a_failed_model_is_asked_again_after_a_while(
    tmp_path: Path, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ConceptModel(refuse=lambda _: True)
    selector = HybridSelector(model, folder=tmp_path)
    await ask(selector, memory, "Where is my car?")
    model.refuse = lambda _: False
    assert (await ask(selector, memory, "Where is my car?")).hits == ()
    monkeypatch.setattr(embedding, "RETRY_SECONDS", 0.0)
    assert (await ask(selector, memory, "Where is my car?")).filenames == ("garage.md",)


async def test_a_secret_is_not_sent_to_an_embedding_model(tmp_path: Path) -> None:
    model = ConceptModel()
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    memory = Memory({"deploy.md": f"The deploy uses the token {secret} for the registry."})
    await ask(HybridSelector(model, folder=tmp_path), memory, f"Which token? Is it {secret}?")
    assert model.asked
    assert not any(secret in text for text in model.asked)


async def test_a_question_asked_again_while_it_is_under_way_is_embedded_once(tmp_path: Path, memory: Memory) -> None:
    model = ConceptModel()
    model.gate.clear()
    selector = HybridSelector(model, folder=tmp_path)
    for _ in range(3):
        await ask(selector, memory, "Where is my car?", patience=0.0)
    model.gate.set()
    assert (await ask(selector, memory, "Where is my car?")).filenames == ("garage.md",)
    assert model.asked.count("Where is my car?") == 1
