"""Write the expected values of the test vectors: `python -m tests.vectors.make` in the root of the repository.

The files hold every case once: its id and its input. To add one, append a row with both to the file of its kind. The
expected values come from the textbook twin, never from the kernels. Under one version of the rules an input keeps its
values: `digests.json` remembers them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.research.conformance import EXPECTED, KINDS, text_of_parts
from assay.service.settings import RULES_VERSION
from tests.reference.engine import answer

FOLDER = Path(__file__).parent
DIGESTS = FOLDER / "digests.json"

COMPACTED = 2_000
"""Characters from which a text is written as parts."""
REPEATED = re.compile(r"(.{1,100}?)\1{49,}", re.DOTALL)


def compact(text: Any) -> Any:
    """Return a long text with repetitions as parts, [text, times] each; anything else as it is."""
    if not isinstance(text, str) or len(text) < COMPACTED:
        return text
    parts, end = [], 0
    for repetition in REPEATED.finditer(text):
        parts += [[text[end : repetition.start()], 1], [repetition[1], len(repetition[0]) // len(repetition[1])]]
        end = repetition.end()
    parts = [part for part in [*parts, [text[end:], 1]] if part[0]]
    return parts if len(parts) > 1 or parts[0][1] > 1 else text


def hexadecimal(value: Any) -> Any:
    """Return the numbers of an expected value, in its shape, as `float.hex` writes them; None if it has none."""
    if isinstance(value, dict):
        numbers = {name: hexadecimal(part) for name, part in value.items()}
        return {name: part for name, part in numbers.items() if part is not None} or None
    if isinstance(value, list):
        return [hexadecimal(part) for part in value] if value and not isinstance(value[0], str) else None
    return value.hex() if isinstance(value, float) else None


def floats(value: Any) -> Any:
    """Return an expected value with floats for all its numbers."""
    if isinstance(value, dict):
        return {name: floats(part) for name, part in value.items()}
    if isinstance(value, list):
        return [floats(part) for part in value]
    return float(value) if isinstance(value, int) else value


def read(kind: str) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    lines = (FOLDER / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    return [json.loads(line) for line in lines]


def input_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a row as it is written, without its id."""
    return {name: value for name, value in row.items() if name not in EXPECTED}


def with_values(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the values that the twin gives for its input."""
    whole = {name: text_of_parts(value) for name, value in input_of(row).items()}
    expected = floats(answer({"kind": kind, **whole}))
    numbers = hexadecimal(expected)
    texts = {name: compact(value) for name, value in whole.items()}
    return {"id": row["id"], **texts, "expected": expected} | ({"hex": numbers} if numbers else {})


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def digests_of(kind: str, row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the digests of a row's input and of its expected value."""
    return digest([kind, input_of(row)]), digest(row["expected"])


def changed(rows: Mapping[str, list[dict[str, Any]]], known: Mapping[str, Any]) -> list[str]:
    """Return the ids of the cases whose values differ from those known of this version of the rules."""
    if known["rules_version"] != RULES_VERSION:
        return []
    digests = [(row["id"], *digests_of(kind, row)) for kind, cases in rows.items() for row in cases]
    return [case for case, case_digest, expected in digests if known["cases"].get(case_digest, expected) != expected]


def files() -> dict[str, bytes]:
    """Return the content of every file by its name."""
    rows = {kind: [with_values(kind, row) for row in read(kind)] for kind in KINDS}
    contents = {}
    for kind, cases in rows.items():
        head = {"vectors": kind, "rules_version": RULES_VERSION, "cases": len(cases)}
        lines = [json.dumps(row, separators=(",", ":")) for row in [head, *cases]]
        contents[f"{kind}.jsonl"] = "".join(line + "\n" for line in lines).encode()
    digests = dict(sorted(digests_of(kind, row) for kind, cases in rows.items() for row in cases))
    document = {"rules_version": RULES_VERSION, "cases": digests}
    contents[DIGESTS.name] = (json.dumps(document, indent=0) + "\n").encode()
    return contents


def main() -> None:
    contents = files()
    rows = {kind: [json.loads(line) for line in contents[f"{kind}.jsonl"].splitlines()[1:]] for kind in KINDS}
    if ids := changed(rows, json.loads(DIGESTS.read_bytes())):
        sys.exit(
            f"{len(ids)} known cases have other values than before, but rules_version is still {RULES_VERSION}: "
            f"raise RULES_VERSION in service/settings.py, or undo the change. First: {', '.join(ids[:5])}"
        )
    for name, content in contents.items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
