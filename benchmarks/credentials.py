"""How many secrets are found, and how often something harmless is taken for one. ``--forms`` names each miss."""

import argparse
import json
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _credential_cases import Case, harmless_cases, secret_cases

from agentic_memory.credentials import find_secrets, redact

MIN_RECALL = 0.95
MAX_FALSE_ALARMS = 0.02
MAX_ALARMS_PER_MB = 2.0
ROOT = Path(__file__).resolve().parents[1]


def is_found(case: Case) -> bool:
    """Tell whether nothing that matters of the secret is left after redaction."""
    return case.secret not in redact(case.text)


def detect_secrets(text: str) -> bool:
    """Ask the package detect-secrets, with its plugins and filters as it comes."""
    from detect_secrets.core.secrets_collection import SecretsCollection
    from detect_secrets.settings import default_settings

    with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as file, default_settings():
        file.write(text)
        file.flush()
        found = SecretsCollection()
        found.scan_file(file.name)
        return bool(found)


def real_text() -> dict[str, list[str]]:
    """Return text in which there is no secret: this repository, and Python's own modules as code."""
    docs = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/data/*"), *ROOT.glob("prompts/*.md")]
    code = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return {
        "documents": [path.read_text("utf-8") for path in docs],
        "code": [path.read_text("utf-8", "replace") for path in code],
    }


def measure(secrets: list[Case], harmless: list[Case], found: Callable[[Case], bool]) -> dict[str, float]:
    began = time.perf_counter()
    hits = sum(found(case) for case in secrets)
    alarms = sum(found(case) for case in harmless)
    size = sum(len(case.text) for case in (*secrets, *harmless))
    return {
        "recall": hits / len(secrets),
        "false alarms": alarms / len(harmless),
        "ms/kB": (time.perf_counter() - began) * 1e6 / size,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("assert", "json", "forms"):
        parser.add_argument(f"--{option}", action="store_true")
    options = vars(parser.parse_args())
    results: dict[str, dict[str, float]] = {}
    for split in ("dev", "held-out"):
        secrets = [case for case in secret_cases() if case.split == split]
        harmless = [case for case in harmless_cases() if case.split == split]
        results[f"{split}, own rules"] = measure(
            secrets, harmless, lambda case: is_found(case) if case.secret else bool(find_secrets(case.text))
        )
        if options["forms"]:
            missed = {case.form: case.text for case in secrets if not is_found(case)}
            false = {case.form: case.text for case in harmless if find_secrets(case.text)}
            for form, text in (*missed.items(), *false.items()):
                print(f"{split}: {form}\n    {redact(text)[:150]!r}", file=sys.stderr)
        try:
            results[f"{split}, detect-secrets"] = measure(secrets, harmless, lambda case: detect_secrets(case.text))
        except ImportError:
            pass  # it is no dependency: installed by hand, it is measured too
    for name, texts in real_text().items():
        size, began = sum(map(len, texts)), time.perf_counter()
        alarms = [(text, finding) for text in texts for finding in find_secrets(text)]
        seconds = time.perf_counter() - began
        results[f"real {name}"] = {"alarms/MB": len(alarms) / size * 1e6, "ms/kB": seconds * 1e6 / size}
        if options["forms"]:
            for text, finding in alarms:
                print(
                    f"{name}: {finding.kind}: {text[max(0, finding.start - 40) : finding.end + 10]!r}", file=sys.stderr
                )
    if options["json"]:
        print(json.dumps(results, indent=2))
    else:
        for name, numbers in results.items():
            print(f"{name:28}" + "  ".join(f"{key} {value:.3f}" for key, value in numbers.items()))
    own = results["held-out, own rules"]
    good = own["recall"] >= MIN_RECALL and own["false alarms"] <= MAX_FALSE_ALARMS
    good &= all(results[f"real {name}"]["alarms/MB"] <= MAX_ALARMS_PER_MB for name in ("documents", "code"))
    return 0 if good or not options["assert"] else 1


if __name__ == "__main__":
    sys.exit(main())
