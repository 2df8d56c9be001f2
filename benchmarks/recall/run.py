"""Measure recall: ``python benchmarks/recall/run.py [--locomo PATH]``.

The bilingual set beside this file is always measured. LoCoMo (Maharana et al., CC BY-NC 4.0) is read from a path, since its
licence does not let it ship here. Parameters were chosen on the dev split; the tables show the test split
unless ``--split`` says otherwise.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from contenders import SELECTORS, Select
from datasets import Store, load_locomo, load_own
from measures import Outcome, Summary, run, summarize
from peers import peers_of
from plot import draw_bars

COLUMNS = {
    "any1": "any@1",
    "any5": "any@5",
    "all5": "all@5",
    "reciprocal_rank": "MRR",
    "precision": "precision",
    "false_recall": "false recall",
    "tokens": "tokens",
}


Makers = dict[str, Callable[[Store], Select]]


def selectors(*, dense: bool, peers: Path | None) -> Makers:
    """Return the selectors to compare, ours first."""
    makers = dict(SELECTORS)
    if dense:
        from hybrid import make_encoder, make_hybrid

        makers = {"agentic-memory, hybrid": make_hybrid, **makers, "encoder alone": make_encoder}
    return makers | (peers_of(peers) if peers is not None else {})


def measure(stores: Sequence[Store], split: str, makers: Makers) -> dict[str, list[Outcome]]:
    """Ask every question of the split of every selector."""
    results: dict[str, list[Outcome]] = {}
    for name, make in makers.items():
        results[name] = []
        for store in stores:
            questions = [question for question in store.questions if split in {"all", question.split}]
            if questions:
                results[name] += run(store, make(store), questions)
    return results


def table(rows: dict[str, Summary], label: str) -> str:
    """Return a Markdown table."""
    lines = [f"| {label} | n | {' | '.join(COLUMNS.values())} | ms |", f"|---|---|{'---|' * (len(COLUMNS) + 1)}"]
    for name, summary in rows.items():
        cells = [str(getattr(summary, column) or "-") for column in COLUMNS]
        lines.append(f"| {name} | {summary.questions} | {' | '.join(cells)} | {summary.milliseconds:.2f} |")
    return "\n".join(lines)


def by_group(outcomes: Sequence[Outcome], attribute: str) -> dict[str, Summary]:
    """Return the figures per language or kind of question."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(getattr(outcome.question, attribute), []).append(outcome)
    return {name: summarize(group) for name, group in sorted(groups.items())}


def report(
    title: str, stores: Sequence[Store], split: str, groups: Sequence[str], makers: Makers
) -> tuple[str, dict[str, Summary]]:
    """Measure one data set and return its section and its figures."""
    results = measure(stores, split, makers)
    # Across languages words cannot match: those questions are a row of their own, not part of the total.
    total = {
        name: summarize([outcome for outcome in outcomes if outcome.question.language != "cross"])
        for name, outcomes in results.items()
    }
    parts = [f"## {title}, split: {split}", table(total, "selector")]
    for name, outcomes in results.items():
        if name.startswith("agentic-memory"):
            parts += [table(by_group(outcomes, group), f"{name}, by {group}") for group in groups]
    return "\n\n".join(parts), total


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, help="path of LoCoMo's JSON file")
    parser.add_argument("--split", choices=["dev", "test", "all"], default="test")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--plot", type=Path, help="also draw any@5 and false recall as an SVG")
    parser.add_argument(
        "--dense", action="store_true", help="also the selectors with vectors; needs the extra embeddings"
    )
    parser.add_argument(
        "--peers", type=Path, help="also other packages; the Python of an environment with requirements-peers.txt"
    )
    options = parser.parse_args()
    makers = selectors(dense=options.dense, peers=options.peers)
    text, own = report("Own bilingual set", load_own(), options.split, ["language", "kind"], makers)
    print(text)
    figures = {"own": own}
    if options.locomo:
        text, figures["locomo"] = report("LoCoMo", load_locomo(options.locomo), options.split, ["kind"], makers)
        print(f"\n{text}")
    if options.json:
        options.json.write_text(
            json.dumps({name: {row: asdict(s) for row, s in rows.items()} for name, rows in figures.items()}, indent=1)
        )
    if options.plot:
        options.plot.write_text(draw_bars(figures), "utf-8")


if __name__ == "__main__":
    main()
