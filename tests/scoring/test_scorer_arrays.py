"""Results are arrays of the right type that belong to the caller; the arguments are unchanged."""

from __future__ import annotations

import copy

import numpy as np

from assay import Scorer
from assay.kernels.rules import REASONS
from assay.kernels.score import COMPONENTS
from assay.service.rewards.scorer import run_self_test
from assay.service.scoring.text_columns import reference_column, text_column
from examples import rollouts
from tests.scoring.agreement import assert_sound, bits


def body() -> dict:
    return rollouts.as_request(list(rollouts.generate(12, 4, seed=2)))


def test_types_and_names():
    request = body()
    scores = Scorer().score(**request)
    assert_sound(scores, 48)
    assert scores.reference_index.dtype == np.int64
    assert scores.reference_index.tolist() == request["reference_index"]
    assert scores.reasons.tolist() == [REASONS[code] for code in scores.reason_codes]
    assert list(scores.components) == list(COMPONENTS)
    assert scores.components["anchors"].tolist() == [int(count) for count in scores.components["anchors"]]
    assert set(scores.components["format"].tolist()) <= {0.0, 1.0}
    assert scores.advantages().dtype == np.float64
    assert repr(scores).startswith(f"Scores(48 responses, mean reward {scores.rewards.mean():.4f}; ")
    assert f"ok {sum(code == 0 for code in scores.reason_codes)}" in repr(scores)
    assert repr(Scorer().score([], [])) == "Scores(0 responses)"


def test_arguments_are_not_changed():
    request = body()
    request["references"].append({"steps": [{"action": "add", "objects": ["pbs"], "parameters": []}]})
    before = copy.deepcopy(request)
    index = np.array(request["reference_index"])
    scorer = Scorer()
    first = bits(scorer.score(request["responses"], request["references"], index))
    responses, references = text_column(request["responses"]), reference_column(body()["references"])
    copies = [array.copy() for array in (*responses, *references)]
    assert bits(scorer.score_columns(responses, references, index)) == first
    assert request == before
    assert index.tolist() == before["reference_index"]
    assert index.flags.writeable
    assert all(np.array_equal(a, b) for a, b in zip((*responses, *references), copies, strict=True))
    assert not any(array.flags.writeable for array in (*responses, *references))


def test_outputs_belong_to_the_caller():
    """Nothing that a caller does to one result affects another."""
    request = body()
    scorer = Scorer()
    expected = bits(scorer.score(**request))
    first, second = scorer.score(**request), scorer.score(**request)
    advantages = first.advantages()
    advantages[:] = 7.0
    first.rewards[:] = -1.0
    first.components["score"][:] = -1.0
    first.reason_codes[:] = 9
    assert bits(second) == bits(scorer.score(**request)) == expected
    assert not (second.advantages() == 7.0).any()


def test_columns_from_text():
    column = text_column(["µ", "", "a\ud800", "x"])
    assert column.data.tobytes() == "µa\ufffdx".encode()
    assert column.offsets.tolist() == [0, 2, 2, 6, 7]
    assert (column.rows, column.lengths.tolist()) == (4, [2, 0, 4, 1])
    empty = text_column([])
    assert (empty.rows, empty.offsets.tolist(), empty.data.shape) == (0, [0], (0,))
    assert (column.data.dtype, column.offsets.dtype) == (np.uint8, np.int64)


def test_selftest_passes():
    run_self_test()
