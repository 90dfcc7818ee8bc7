"""Read the test vectors, which are in `tests/vectors/` of the repository and of the installed package."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import AssayError
from ..settings import RULES_VERSION

__all__ = ["KINDS", "Vector", "VectorsNotFound", "read_vectors"]

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "vectors"
KINDS = ("score", "words", "advantages", "evaluate")  # kinds of vectors; each has a file `KIND.jsonl`
EXPECTED = frozenset({"id", "expected", "hex"})  # fields that are not the input


class VectorsNotFound(AssayError):
    """There are no vectors for this version of the rules."""


class Vector(NamedTuple):
    id: str  # `KIND/GROUP/NAME`
    row: dict[str, Any]  # the row that an implementation gets: `id`, `kind` and the input
    expected: dict[str, Any]

    @property
    def group(self) -> str:
        return "/".join(self.id.split("/")[:2])


def read_vectors(kinds: Iterable[str] = KINDS) -> list[Vector]:
    return [case for kind in kinds for case in read_kind(kind)]


def read_kind(kind: str) -> list[Vector]:
    path = FOLDER / f"{kind}.jsonl"
    try:
        head, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise VectorsNotFound(f"{path}: {error.strerror}") from None
    if (head["rules_version"], head["cases"]) != (RULES_VERSION, len(rows)):
        raise VectorsNotFound(f"{path} is incomplete, or not for version {RULES_VERSION} of the rules")
    vectors = []
    for row in rows:
        fields = {name: joined(value) for name, value in row.items() if name not in EXPECTED}
        vectors.append(Vector(row["id"], {"id": row["id"], "kind": kind, **fields}, row["expected"]))
    return vectors


def joined(value: Any) -> Any:
    """Return the text of parts, `[[text, times], …]`; any other value as it is."""
    is_parts = isinstance(value, list) and all(isinstance(part, list) for part in value) and value
    return "".join(text * times for text, times in value) if is_parts else value
