"""JSON with and without orjson."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay_client import requests as json_text


@pytest.fixture(params=["orjson", "standard library"])
def _library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "orjson":
        pytest.importorskip("orjson")
    else:
        monkeypatch.setattr(json_text, "orjson", None)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        ("plain", "plain"),
        ('"\\\n\t\x00\x7f µ 🧪', '"\\\n\t\x00\x7f µ 🧪'),
        ("a\ud800b\udfff", "a\ufffdb\ufffd"),
        ("\ud83e\uddea", "\ufffd\ufffd"),
        (["x", "\udc00"], ["x", "\ufffd"]),
        ({"a": ["\ud800", {}]}, {"a": ["\ufffd", {}]}),
    ],
)
def test_both_write_the_same_value(value: Any, meaning: Any) -> None:
    written = json_text.dumps(value)
    assert json.loads(written.decode()) == meaning
    assert json_text.loads(written) == meaning


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("value", [{1, 2}, b"x", {"a": object()}])
def test_values_without_a_json_form_are_rejected(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        json_text.dumps(value)


@pytest.mark.usefixtures("_library")
@pytest.mark.parametrize("body", [b"", b"{", b'{"a": NaN}', b"[Infinity]", b"[-Infinity]", b'"\xff"', b"1 2"])
def test_invalid_json_is_rejected(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        json_text.loads(body)
