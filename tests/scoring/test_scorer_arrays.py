"""Results are arrays of the right type that belong to the caller; the arguments are unchanged."""

from __future__ import annotations

import copy
import json

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
    given = body()
    scores = Scorer().score(**given)
    assert_sound(scores, 48)
    assert scores.reference_index.dtype == np.int64
    assert scores.reference_index.tolist() == given["reference_index"]
    assert scores.reasons.tolist() == [REASONS[code] for code in scores.reason_codes]
    assert list(scores.components) == list(COMPONENTS)
    assert scores.components["anchors"].tolist() == [int(count) for count in scores.components["anchors"]]
    assert set(scores.components["format"].tolist()) <= {0.0, 1.0}
    assert scores.advantages().dtype == np.float64
    assert repr(scores).startswith(f"Scores(48 responses, mean reward {scores.rewards.mean():.4f}; ")
    assert f"ok {sum(code == 0 for code in scores.reason_codes)}" in repr(scores)
    assert repr(Scorer().score([], [])) == "Scores(0 responses)"
    json.dumps(
        [scores.rewards.tolist(), scores.reasons.tolist(), {k: v.tolist() for k, v in scores.components.items()}]
    )


def test_inputs_are_not_changed():
    given = body()
    steps = [
        json.loads(line.split(":", 1)[1]) for line in given["references"][0].split("\n") if line.startswith("Step 1: {")
    ]
    given["references"].append({"steps": steps[:1]})
    before = copy.deepcopy(given)
    index = np.array(given["reference_index"])
    Scorer().score(given["responses"], given["references"], index).advantages()
    assert given == before
    assert index.tolist() == before["reference_index"]
    assert index.flags.writeable


def test_columns_are_not_changed():
    given = body()
    responses, references = text_column(given["responses"]), reference_column(given["references"])
    copies = [array.copy() for array in (*responses, *references)]
    index = np.array(given["reference_index"], np.int64)
    scorer = Scorer()
    first = bits(scorer.score_columns(responses, references, index))
    assert bits(scorer.score_columns(responses, references, index)) == first
    assert all(np.array_equal(a, b) for a, b in zip((*responses, *references), copies, strict=True))
    assert not any(array.flags.writeable for array in (*responses, *references))


def test_outputs_belong_to_the_caller():
    """Nothing that a caller does to one result affects another."""
    given = body()
    scorer = Scorer()
    expected = bits(scorer.score(**given))
    first, second = scorer.score(**given), scorer.score(**given)
    advantages = first.advantages()
    advantages[:] = 7.0
    first.rewards[:] = -1.0
    first.components["score"][:] = -1.0
    first.reason_codes[:] = 9
    assert bits(second) == expected
    assert bits(scorer.score(**given)) == expected
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
