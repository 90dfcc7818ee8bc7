"""A response's result depends only on itself, its reference and the settings, whoever scores at the same time."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from assay import InvalidReference, InvalidRequest, Scorer
from assay.kernels.column import TextColumn
from assay.kernels.compiler import JIT
from assay.kernels.rules import REASONS
from assay.service.rewards.batch import Batch
from assay.service.rewards.scorer import run_self_test
from assay.service.scoring.texts import text_column
from examples import rollouts
from tests.scoring.agreement import bits

PROMPTS = 90 if JIT else 8


@pytest.fixture
def batch() -> dict[str, Any]:
    return rollouts.as_request(list(rollouts.generate(PROMPTS, 4, seed=21)))


@pytest.mark.parametrize("threads", [1, 2])
def test_bad_references_of_any_share_are_all_named(batch, threads):
    references, scorer = list(batch["references"]), Scorer(threads=threads)
    reasons = {0: "no_steps", PROMPTS // 2: "bad_step_line", PROMPTS - 1: "too_long"}
    for row, text in zip(reasons, ("", "Step 1: nothing", "x" * 300_000), strict=True):
        references[row] = text
    expected = [(f"references[{row}]", reason) for row, reason in reasons.items()]
    with pytest.raises(InvalidReference) as caught:
        scorer.score(batch["responses"], references, batch["reference_index"])
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == expected
    with pytest.raises(InvalidRequest) as both:
        scorer.score([5, *batch["responses"][1:]], references, batch["reference_index"])
    assert [(issue.path, issue.reason) for issue in both.value.issues] == [*expected, ("responses[0]", "wrong_type")]


def test_rows_of_a_larger_buffer(batch):
    """A column may begin and end inside its buffer, as a slice of an Arrow column does."""
    scorer, whole = Scorer(), bits(Scorer().score(**batch))
    responses, references = text_column(batch["responses"]), text_column(batch["references"])
    index = np.array(batch["reference_index"], np.int64)
    for first, last in ((5, 30), (17, 17)):
        cut = TextColumn(responses.data, responses.offsets[first : last + 1])
        assert bits(scorer.score_columns(cut, references, index[first:last])) == whole[first:last]
    some = TextColumn(references.data, references.offsets[3:7])
    rows = np.flatnonzero((index >= 3) & (index < 6))
    chosen = text_column([batch["responses"][row] for row in rows])
    assert bits(scorer.score_columns(chosen, some, index[rows] - 3)) == [whole[row] for row in rows]


def test_callers_at_the_same_time(batch):
    """Several configurations and eight threads that start together."""
    scorers = [Scorer(threads=2), Scorer(threads=2, order="lcs", reward_scale="raw"), Scorer(think_prefilled=True)]
    expected = [bits(scorer.score(**batch)) for scorer in scorers]
    start = threading.Barrier(8)

    def call(caller: int) -> list[bool]:
        start.wait()
        order = [(caller + k) % 3 for k in range(6 if JIT else 1)]
        return [bits(scorers[k].score(**batch)) == expected[k] for k in order]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(outcome) for outcome in pool.map(call, range(8)))


def test_results_belong_to_the_caller_and_arguments_are_not_changed(batch):
    request = copy.deepcopy(batch) | {"reference_index": np.array(batch["reference_index"])}
    scorer = Scorer()
    first, second = scorer.score(**request), scorer.score(**request)
    expected = bits(second)
    assert (request["responses"], request["references"]) == (batch["responses"], batch["references"])
    assert request["reference_index"].tolist() == second.reference_index.tolist() == batch["reference_index"]
    first.advantages()[:] = 7.0
    first.rewards[:] = -1.0
    first.components["score"][:] = -1.0
    first.reason_codes[:] = 9
    assert bits(second) == bits(scorer.score(**request)) == expected
    assert not (second.advantages() == 7.0).any()
    assert second.reasons.tolist() == [REASONS[code] for code in second.reason_codes]
    assert repr(second).startswith(f"Scores({len(second)} responses, mean reward {second.rewards.mean():.4f}; ")
    assert f"ok {sum(code == 0 for code in second.reason_codes)}" in repr(second)
    assert repr(Scorer().score([], [])) == "Scores(0 responses)"
    run_self_test()


def test_columns_from_text():
    column = text_column(["µ", "", "a\ud800", "x"])
    assert column.data.tobytes() == "µa\ufffdx".encode()
    assert column.offsets.tolist() == [0, 2, 2, 6, 7]
    assert (column.rows, column.lengths.tolist()) == (4, [2, 0, 4, 1])


class Lazy(list):
    """A list that creates its elements on every access."""

    def __iter__(self):
        return ("".join([text, " "]) for text in super().__iter__())

    def __getitem__(self, at):
        return Lazy(super().__getitem__(at)) if isinstance(at, slice) else f"{super().__getitem__(at)} "


@pytest.mark.parametrize("prompts", [1, PROMPTS], ids=["one", "shares"])
def test_lists_that_create_their_texts_or_are_emptied_meanwhile(batch, prompts, monkeypatch):
    """Kernels read strings in place, so something must keep them alive."""
    index = [k for k in batch["reference_index"] if k < prompts]
    responses, references = batch["responses"][: len(index)], batch["references"][:prompts]
    scorer = Scorer(threads=2)
    plain = scorer.score([f"{text} " for text in responses], [f"{text} " for text in references], index)
    assert bits(scorer.score(Lazy(responses), Lazy(references), index)) == bits(plain)
    expected = bits(scorer.score(responses, references, index))
    check = Batch.check

    def meanwhile(checked):
        responses.clear()
        references.clear()
        check(checked)

    monkeypatch.setattr(Batch, "check", meanwhile)
    assert bits(scorer.score(responses, references, index)) == expected
