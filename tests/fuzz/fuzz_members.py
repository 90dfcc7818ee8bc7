"""Members and elements of JSON that are found in place, against orjson. An input is a body."""

from __future__ import annotations

from typing import Any

from tests.fuzz.fuzzing import fuzz, outcome

# isort: split
import orjson

from assay.service.http.endpoints.trainers.rows import JsonObject, elements
from assay.service.scoring.labels import ABSENT, members
from assay.service.wire.problems import Problem
from tests.fuzz.fuzz_envelope import seeds
from tests.fuzz.request_seeds import WORDS
from tests.guard_pages import GuardedMemory

NAMES = ("responses", "references", "config", "a", "µ")
NOT_JSON = object()
INNER = ("steps", "order", "a")


def check(data: bytes, memory: GuardedMemory) -> None:
    body: Any = memory.frozen(data)
    try:
        expected = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "infinity" in error.msg:  # a number that is JSON, and that no double holds
            return
        expected = NOT_JSON
    document = outcome(JsonObject, body, NAMES)
    if isinstance(document, Problem):
        assert document.kind == ("not-json" if expected is NOT_JSON else "invalid-request")
        return
    assert isinstance(expected, dict)
    for name in NAMES:
        assert (document[name] == ABSENT) == (name not in expected)
        if name in expected:
            agree(document[name], expected[name])


def agree(value: bytes, expected: Any) -> None:
    """Compare a value of the body, and its elements or members, with the expected one."""
    assert orjson.loads(value) == expected
    array, fields = elements(value, "path"), members(value, *INNER)
    assert (array is None, fields is None) == (not isinstance(expected, list), not isinstance(expected, dict))
    if array is not None:
        assert [orjson.loads(element) for element in array] == expected
    for name, field in zip(INNER, fields or (), strict=False):
        assert (orjson.loads(field) == expected[name]) if name in expected else field == ABSENT


if __name__ == "__main__":
    nested = b'{"a": 7, "\\u00b5": {"a": null, "\\u0061": 2}, "a": [1, [2], {}, 4, 5, 6, 7, 8, "9", 10]}'
    fuzz(check, [*seeds(), nested], WORDS)
