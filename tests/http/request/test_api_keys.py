"""The comparison of API keys takes the same steps whichever key is right."""

from __future__ import annotations

import hmac
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from pydantic import SecretStr

from assay.service.http.request.access import Keys
from assay.service.http.wire.headers import Problem

KEYS = ["first-key", "second-key-that-is-longer", "third", "fourth-key"]


@pytest.mark.attack
@pytest.mark.parametrize("sent", [*KEYS, "", "f", "first-ke", "first-key0", "wrong", "x" * 60_000])
def test_every_key_is_compared_by_its_digest_without_an_early_end(monkeypatch, sent):
    """Guess a key by time: its length, its first characters, its place in the list and the number of keys tell nothing.

    Each request has as many comparisons in constant time, of digests of the same length, as there are keys.
    """
    compare = hmac.compare_digest
    compared: list[tuple[int, int]] = []

    def counted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    keys = Keys(SecretStr(key) for key in KEYS)
    with nullcontext() if sent in KEYS else pytest.raises(Problem, match="unauthorized"):
        keys.check(SimpleNamespace(header=lambda name: b"Bearer " + sent.encode()))  # type: ignore[arg-type]
    assert compared == [(32, 32)] * len(KEYS)
