"""The kernel of the evaluation metrics: rows against the twin, slices, libraries, and what stood there before."""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.column import frozen
from assay.kernels.compiler import JIT
from assay.kernels.protocol_metrics import MEASURES, measure_protocols
from assay.kernels.rules import KEY_NUMBERING, OK, REASONS
from assay.kernels.text.unicode import tables
from assay.kernels.warmup import warmup
from examples import rollouts
from tests.kernels.faces import text_column, workspace_for
from tests.kernels.reading import PAPER_RULES, read_columns
from tests.reference.protocol_metrics import adherence, paper_metrics, predicted_steps
from tests.reference.scorer import parse_reference
from tests.reference.words import words

PROMPTS = 8 if JIT else 2
JUNK = -77.0


@pytest.fixture(scope="module")
def request_body() -> dict:
    return rollouts.as_request(list(rollouts.generate(PROMPTS, 5, seed=9)))


def key_line(action: str) -> str:
    return f'Step 1: {{"action": "{action}", "objects": [], "parameters": []}}'


class Slices:
    """The outputs of a batch, and the other arguments: rows take turns with the first library, the second, and none."""

    def __init__(self, body: dict, before: int = 0) -> None:
        warmup()
        _, self.references = read_columns(body["references"])
        self.actions = [sorted({" ".join(step.action) for step in parse_reference(r)}) for r in body["references"][:2]]
        self.actions = [[*names[1:], "wash", "wash the cells"] for names in self.actions]
        _, self.libraries = read_columns(["\n".join(map(key_line, names)) for names in self.actions])
        self.responses = text_column(body["responses"], before, 3)
        self.index = frozen(np.array(body["reference_index"]), np.int64)
        rows = self.responses.rows
        self.chosen = [-1 if row % 3 == 2 else row % 3 for row in range(rows)]
        self.library_index = frozen(np.array(self.chosen), np.int64)
        self.statuses, self.measures = np.full(rows, 99, np.uint8), np.full((len(MEASURES), rows), JUNK)
        self.workspace = workspace_for(self.responses, max(self.references.widest, self.libraries.widest))

    def measure(self, first: int, last: int, rules=PAPER_RULES) -> None:
        columns = (*self.responses, self.index, self.references, self.library_index, self.libraries)
        measure_protocols(self.statuses, self.measures, first, last, *columns, rules, tables(), self.workspace)


def test_against_twin(request_body):
    slices = Slices(request_body)
    slices.measure(0, len(slices.statuses))
    allowed = [{tuple(words(action)) for action in names} for names in slices.actions]
    parsed = [parse_reference(reference) for reference in request_body["references"]]
    some_outside = 0
    for row, (response, k) in enumerate(zip(request_body["responses"], request_body["reference_index"], strict=True)):
        steps = predicted_steps(response)
        found = dict(zip(MEASURES, slices.measures[:, row].tolist(), strict=True))
        expected = {**paper_metrics(steps, parsed[k]), "steps": float(len(steps))}
        shares = adherence(steps, parsed[k], allowed[slices.chosen[row]]) if slices.chosen[row] >= 0 else None
        counts = [share * len(steps) for share in shares] if shares else [0.0, 0.0]
        expected |= dict(zip(("outside_library", "distractors"), counts, strict=True))
        assert found == pytest.approx(expected, abs=1e-9), row
        assert (slices.statuses[row] == OK) == bool(steps)
        some_outside += counts[0] > 0
    assert some_outside
    assert KEY_NUMBERING not in slices.statuses
    assert {REASONS[code] for code in slices.statuses} > {"ok"}


@pytest.mark.parametrize("cut", [(0, 0), (0, 1), (3, 3), (3, 7), (9, 10)])
def test_only_rows_of_the_slice_are_written(request_body, cut):
    whole, part = Slices(request_body), Slices(request_body, before=11)
    rows = len(whole.statuses)
    whole.measure(0, rows)
    part.measure(*cut)
    assert (part.measures[0] != JUNK).tolist() == [cut[0] <= row < cut[1] for row in range(rows)]
    inside = slice(*cut)
    assert part.measures[:, inside].tobytes() == whole.measures[:, inside].tobytes()
    assert set(part.statuses[: cut[0]]) | set(part.statuses[cut[1] :]) <= {99}


def test_rows_do_not_remember_each_other(request_body):
    """The same workspace, every row twice, forwards and backwards."""
    forwards, backwards = Slices(request_body), Slices(request_body)
    rows = len(forwards.statuses)
    forwards.measure(0, rows)
    for row in [*range(rows), *range(rows - 1, -1, -1)]:
        backwards.measure(row, row + 1)
    assert backwards.measures.tobytes() == forwards.measures.tobytes()
    assert backwards.statuses.tobytes() == forwards.statuses.tobytes()


def test_limits_are_those_of_the_rules(request_body):
    slices = Slices(request_body)
    slices.measure(0, len(slices.statuses), PAPER_RULES._replace(max_response_bytes=1))
    assert {REASONS[code] for code in slices.statuses} == {"too_long"}
    assert not slices.measures.any()
    slices.measure(0, len(slices.statuses), PAPER_RULES._replace(max_steps=1))
    assert slices.measures[MEASURES.index("steps")].max() <= 1
