"""Step recall and precision of protocol generation: against a textbook twin, for one delta and for several."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.errors import InvalidRequest
from assay.service.tasks.bioprobench import gen
from assay.service.tasks.bioprobench.gen import generated_steps, matched
from assay.service.tasks.evaluation import evaluate
from assay.service.tasks.text.embedders import embedded, hashed_words
from tests.reference.bioprobench import step_shares
from tests.strategies import examples

STEPS = st.lists(st.sampled_from(["wash", "wash cells", "cells", "spin", "spin 5 ml", "the cells", "5"]), max_size=5)


@given(STEPS, STEPS)
@examples(40)
def test_steps(reference, generated):
    vectors = embedded(hashed_words, [*reference, *generated], "x")
    deltas = [0.7, 0.0, 0.5, 0.95]
    near = matched(reference, generated, vectors, deltas)
    if not reference or not generated:
        assert [counts.tolist() for counts in near] == [[0] * len(deltas)] * 2
        return
    cosine = [[float(vectors[a] @ vectors[b]) for b in generated] for a in reference]
    for k, delta in enumerate(deltas):
        shares = near[0][k] / len(reference), near[1][k] / len(generated)
        assert shares == pytest.approx(step_shares(cosine, delta), abs=1e-12)


def test_steps_in_blocks(monkeypatch):
    reference, generated = ["a", "b", "c", "a b", "d"], ["b", "e", "a b", "x"]
    vectors = embedded(hashed_words, [*reference, *generated], "x")
    whole = matched(reference, generated, vectors, [0.7])
    monkeypatch.setattr(gen, "CELLS", 6)
    assert matched(reference, generated, vectors, [0.7]) == whole == ([3], [2])


def test_empty_generations():
    """Those with the best precision are a warning."""
    assert generated_steps(" 1. Wash. \n\n \t\n- Spin.\r\n") == ["1. Wash.", "- Spin."]
    empty = {"output": ["Wash."], "generated_response": "<think>no</think>"}
    records = [{"output": ["Wash."], "generated_response": text} for text in ("", "Wash.", " ")]
    for option, precision in (("one", 1.0), ("zero", 0.0)):
        options = {"embedder": "hashed_words", "empty_step_precision": option}
        found = evaluate("bioprobench.gen", [empty], **options).aggregate
        assert found["step_precision"] == precision
        assert found["step_recall"] == found["rouge_l"] == found["keyword_f1"] == 0.0
        warnings = evaluate("bioprobench.gen", records, **options).warnings
        assert [text.startswith("2 responses are empty") for text in warnings] == [True] * (option == "one")
        assert evaluate("bioprobench.gen", records, metrics=["keyword_f1"], **options).warnings == []


def test_a_sweep_of_delta_embeds_once():
    """Its columns are those of evaluations with each value as delta."""
    texts: list[str] = []

    def counted(several):
        texts.extend(several)
        return hashed_words(several)

    records = [
        {"output": ["Wash the cells.", "Spin the tubes for 5 min."], "generated_response": "Wash cells.\nSpin tubes."},
        {"output": ["Add pbs."], "generated_response": "Add cold pbs."},
        {"output": "a text", "generated_response": "Add cold pbs."},
    ]
    names = ["step_recall", "step_precision"]
    swept = evaluate("bioprobench.gen", records, embedder=counted, delta_sweep=[0.4, 0.9], metrics=names)
    assert len(texts) == len(set(texts)) == 6
    assert set(swept.per_record) == {*names, *(f"{name}@{delta}" for name in names for delta in (0.4, 0.9))}
    recalls = set()
    for delta in (0.4, 0.7, 0.9):
        alone = evaluate("bioprobench.gen", records, embedder="hashed_words", delta=delta, metrics=names)
        assert ("delta" in alone.signature) == (delta != 0.7)
        for name in names:
            column = name if delta == 0.7 else f"{name}@{delta}"
            assert np.array_equal(swept.per_record[column], alone.per_record[name], equal_nan=True)
            assert swept.aggregate[column] == alone.aggregate[name]
            assert swept.counts[column] == 2
        recalls.add(alone.aggregate["step_recall"])
    assert len(recalls) == 3
    other = evaluate("bioprobench.gen", records, embedder="hashed_words", delta_sweep=[0.4], metrics=["keyword_f1"])
    assert set(other.aggregate) == {"count", "keyword_f1"}
    with pytest.raises(InvalidRequest) as caught:
        evaluate("bioprobench.gen", records, delta=1.5, delta_sweep=[0.5, -1])
    assert [issue.path for issue in caught.value.issues] == ["options.delta", "options.delta_sweep[1]"]
    with pytest.raises(InvalidRequest, match=r"options\.delta_sweep: .*32"):
        evaluate("bioprobench.gen", records, delta_sweep=[0.5] * 33)
