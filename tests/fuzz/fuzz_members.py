"""Members and elements of JSON that are found in place, against orjson. An input is a body."""

from __future__ import annotations

from typing import Any

from tests.fuzz.fuzzing import fuzz, outcome

# isort: split
import orjson

from assay.service.http.endpoints.trainers.json_document import ABSENT, Document, MemberNames
from assay.service.http.wire.problems import Problem
from tests.fuzz.fuzz_envelope import seeds
from tests.fuzz.request_seeds import WORDS
from tests.guard_pages import GuardedMemory

NAMES = MemberNames("responses", "references", "config", "a", "µ")
NOT_JSON = object()
INNER = MemberNames("steps", "order", "a")


def check(data: bytes, memory: GuardedMemory) -> None:
    body: Any = memory.frozen(data)
    try:
        expected = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if "infinity" in error.msg:  # a number that is JSON, and that no double holds
            return
        expected = NOT_JSON
    document = outcome(Document, body, NAMES)
    if isinstance(document, Problem):
        assert document.kind == ("not-json" if expected is NOT_JSON else "invalid-request")
        return
    assert isinstance(expected, dict)
    for name, span in zip(NAMES, document.spans, strict=True):
        assert (span == ABSENT) == (name not in expected)
        if span != ABSENT:
            agree(document, span, expected[name])


def agree(document: Document, span: tuple[int, int], expected: Any) -> None:
    """Compare a value of the body, and its elements or members, with the expected one."""
    assert orjson.loads(document.raw(span)) == expected
    elements, members = document.elements(span, "path"), document.members(span, INNER)
    assert (elements is None, members is None) == (not isinstance(expected, list), not isinstance(expected, dict))
    if elements is not None:
        assert [orjson.loads(document.raw(one)) for one in elements] == expected
    for name, one in zip(INNER, members or (), strict=False):
        assert (orjson.loads(document.raw(one)) == expected[name]) if name in expected else one == ABSENT


if __name__ == "__main__":
    nested = b'{"a": 7, "\\u00b5": {"a": null, "\\u0061": 2}, "a": [1, [2], {}, 4, 5, 6, 7, 8, "9", 10]}'
    fuzz(check, [*seeds(), nested], WORDS)
