"""Charges: what a request may cause is counted before it is scored, and usual requests are far from the limit."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from assay import Scorer
from assay.kernels.column import TextColumn
from assay.service.rewards.batch import Batch
from assay.service.scoring.references import Alternatives, ReferenceTexts
from assay.service.wire.problems import Problem
from assay.service.wire.work import FREE_WORK, MAX_LOOP_ROWS, MAX_WORK, READ, are_few, check_work, is_light

SCORER = Scorer()
ROWS, BYTES = 65_536, 64 << 20
TABLE_21 = [
    dict(zip(("order", "semantics", "total"), values, strict=True))
    for values in product(("strict", "lcs"), ("sum", "product"), ("product", "sum"))
]
DECAYS = [{"position_decay": 1 + k / 1000} for k in range(64)]


def column(rows: int, nbytes: int) -> TextColumn:
    """Return a column of texts of so many bytes, which need no memory."""
    text = np.broadcast_to(np.zeros(1, np.uint8), (rows * nbytes,))
    return TextColumn(text, np.arange(rows + 1) * nbytes)


def batch(
    rows: int, nbytes: int, alternatives: int = 0, references: int = 1, configs: list[dict[str, Any]] | None = None
) -> Batch:
    """Return a batch of responses and references of one length."""
    made = Batch(
        responses=column(rows, nbytes),
        references=ReferenceTexts(
            column(references * max(1, alternatives), nbytes),
            alternatives=Alternatives.of_lists([alternatives] * references) if alternatives else None,
        ),
        reference_index=np.arange(rows) % references,
        configurations={"config": SCORER.columns},
    )
    scorers = [SCORER.with_overrides(config).columns for config in configs or ()]
    made.configurations |= {f"configs[{k}]": each for k, each in enumerate(scorers)}
    return made


ALLOWED = {
    "a step": batch(1024, 5_000, references=128),
    "the longest body": batch(65_536, 1_000, references=64),
    "64 configurations of a step": batch(1024, 5_000, references=128, configs=DECAYS),
    "the longest body under 64 configurations": batch(1024, 64_000, references=4, configs=DECAYS),
    "16 alternatives": batch(4096, 5_000, 16, references=128),
    "16 alternatives under the configurations of Table 21": batch(512, 5_000, 16, references=64, configs=TABLE_21),
    "4 alternatives under 64 configurations": batch(256, 5_000, 4, references=32, configs=DECAYS),
    "everything at once, of one response": batch(1, 5_000, 16, configs=DECAYS),
    "with and without <think>": batch(1024, 5_000, configs=[{}, {"think_prefilled": True}]),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_usual_requests_are_allowed(name):
    check_work(ALLOWED[name], ROWS, BYTES)


REFUSED = {
    "alternatives by configurations": (batch(64, 80_000, 16, configs=DECAYS), "references"),
    "readings": (batch(8, 80_000, configs=[{"max_steps": 100 + k} for k in range(64)]), "configs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_product_and_its_limit_are_named(name):
    refusal, path = REFUSED[name]
    with pytest.raises(Problem) as raised:
        check_work(refusal, ROWS, BYTES)
    assert (raised.value.kind, [issue[:2] for issue in raised.value.issues]) == ("too-large", [(path, "too_many")])
    nbytes = int(refusal.responses.lengths.sum() + refusal.references.texts.lengths.sum())
    assert f"{nbytes} bytes read" in raised.value.issues[0].detail
    assert f"{MAX_WORK * nbytes} are the limit" in raised.value.issues[0].detail


def test_configurations_count_by_what_they_repeat():
    """Settings that only combine what was measured are free; what differs in similarities counts most."""
    gates = [{"min_coverage": k / 64, "max_mean_words": 10.0 + k} for k in range(64)]
    similarities = [
        {"object_similarity": objects, "parameter_similarity": parameters, "order": order}
        for objects, parameters, order in product(("fallback", "max"), ("words", "quantities"), ("strict", "lcs"))
    ]
    check_work(batch(64, 80_000, 16, configs=gates), ROWS, BYTES)
    with pytest.raises(Problem):
        check_work(batch(64, 80_000, 16, configs=similarities), ROWS, BYTES)
    small = FREE_WORK // (3 * READ * 64)
    check_work(batch(1, small, configs=[{"max_steps": 100 + k} for k in range(64)]), ROWS, BYTES)


def test_what_the_event_loop_scores_is_bounded_by_its_work():
    """Characters that expand count more, and rows count besides their bytes."""
    limit = 65_536
    usual = json.dumps({"responses": ["Add 5 µl of lysis buffer. " * 100] * 14}, ensure_ascii=False).encode()
    assert limit / 2 < len(usual) < limit
    assert is_light(usual, limit)
    assert is_light(bytearray(usual), limit)
    for text in ("\ufdfa" * 7_000, "\ufdfa " * 3_000):
        for ascii_only in (False, True):
            body = json.dumps([text], ensure_ascii=ascii_only).encode()
            assert not is_light(body, limit)
            assert is_light(body[: limit // 8 - 1], limit)
    assert not is_light(b"a" * limit, limit)
    assert is_light(b"", limit)
    assert are_few(column(MAX_LOOP_ROWS, 1), None)
    assert not are_few(column(1, 1), column(MAX_LOOP_ROWS + 1, 1))
