"""Write the test vectors: `python -m tests.vectors.make` in the root of the repository.

Inputs are written by hand or drawn with a seed; expected values come from the textbook twin, never from the kernels.
Under one version of the rules an input keeps its values: `digests.json` remembers them.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.service.settings import RULES_VERSION
from tests.reference.engine import answer
from tests.vectors import advantage_cases, evaluation_cases, score_cases, word_cases

FOLDER = Path(__file__).parent
DIGESTS = FOLDER / "digests.json"

INPUTS = {
    "score": score_cases.rows,
    "words": word_cases.rows,
    "advantages": advantage_cases.rows,
    "evaluate": evaluation_cases.rows,
}
"""The kinds of vectors, and what yields the id and the input of each."""

COMPACTED = 2_000
"""Characters from which a text is written as parts."""
REPEATED = re.compile(r"(.{1,100}?)\1{49,}", re.DOTALL)


def compact(text: Any) -> Any:
    """Return a long text with repetitions as parts, [text, times] each; anything else as it is."""
    if not isinstance(text, str) or len(text) < COMPACTED:
        return text
    parts, end = [], 0
    for found in REPEATED.finditer(text):
        parts += [[text[end : found.start()], 1], [found[1], len(found[0]) // len(found[1])]]
        end = found.end()
    parts = [part for part in [*parts, [text[end:], 1]] if part[0]]
    return parts if len(parts) > 1 or parts[0][1] > 1 else text


def hexadecimal(value: Any) -> Any:
    """Return the numbers of an expected value, in its shape, as `float.hex` writes them; None if it has none."""
    if isinstance(value, dict):
        found = {name: hexadecimal(part) for name, part in value.items()}
        return {name: part for name, part in found.items() if part is not None} or None
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


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9/.]+", "-", name.lower()).strip("-")


def vectors(kind: str) -> Iterator[dict[str, Any]]:
    """Yield the vectors of one kind, each input once; ids that occur more than once are numbered."""
    seen: Counter[str] = Counter()
    inputs = {json.dumps(given, sort_keys=True): (name, given) for name, given in reversed(list(INPUTS[kind]()))}
    for name, given in reversed(inputs.values()):
        case = f"{kind}/{slug(name)}"
        seen[case] += 1
        if seen[case] > 1:
            case += f"-{seen[case]}"
        expected = floats(answer({"kind": kind, **given}))
        row = {"id": case, **{field: compact(value) for field, value in given.items()}, "expected": expected}
        numbers = hexadecimal(expected)
        yield row | ({"hex": numbers} if numbers else {})


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def digests_of(kind: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the digest of each expected value by that of its input."""
    inputs = [{name: row[name] for name in row if name not in ("id", "expected", "hex")} for row in rows]
    return {digest([kind, given]): digest(row["expected"]) for given, row in zip(inputs, rows, strict=True)}


def changed(rows: Mapping[str, list[dict[str, Any]]], known: Mapping[str, Any]) -> list[str]:
    """Return the ids of the cases whose values differ from those known of this version of the rules."""
    if known["rules_version"] != RULES_VERSION:
        return []
    return [
        row["id"]
        for kind, cases in rows.items()
        for row, (given, expected) in zip(cases, digests_of(kind, cases).items(), strict=True)
        if known["cases"].get(given, expected) != expected
    ]


def files() -> dict[str, bytes]:
    """Return the content of every file by its name."""
    rows = {kind: list(vectors(kind)) for kind in INPUTS}
    found = {}
    for kind, cases in rows.items():
        head = {"vectors": kind, "rules_version": RULES_VERSION, "cases": len(cases)}
        lines = [json.dumps(row, separators=(",", ":")) for row in [head, *cases]]
        found[f"{kind}.jsonl"] = "".join(line + "\n" for line in lines).encode()
    known = {given: value for kind, cases in rows.items() for given, value in digests_of(kind, cases).items()}
    document = {"rules_version": RULES_VERSION, "cases": dict(sorted(known.items()))}
    found[DIGESTS.name] = (json.dumps(document, indent=0) + "\n").encode()
    return found


def main() -> None:
    found = files()
    if DIGESTS.exists():
        rows = {kind: [json.loads(line) for line in found[f"{kind}.jsonl"].splitlines()[1:]] for kind in INPUTS}
        if ids := changed(rows, json.loads(DIGESTS.read_bytes())):
            sys.exit(
                f"{len(ids)} known cases have other values than before, but rules_version is still {RULES_VERSION}: "
                f"raise RULES_VERSION in service/settings.py, or undo the change. First: {', '.join(ids[:5])}"
            )
    for name, content in found.items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
