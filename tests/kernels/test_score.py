"""The kernels that score and measure a slice write its rows and no others, whatever they contained before.

The values of `score_slice` are compared with the twin's in tests/scoring.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.column import frozen
from assay.kernels.compiler import JIT
from assay.kernels.memory import COUNTS, EPOCH
from assay.kernels.protocol_metrics import MEASURES, measure_protocols
from assay.kernels.rules import KEY_NUMBERING, OK, REASONS, Rules
from assay.kernels.score import COMPONENTS, rules_at, score_slice
from assay.kernels.text.interning import EPOCH_LIMIT
from assay.kernels.text.unicode import tables
from assay.kernels.warmup import warmup
from assay.service.explain.alignment import formula
from assay.service.scoring.column_scorer import configurations_of
from examples import rollouts
from tests.kernels.faces import text_column, workspace_for
from tests.kernels.reading import PAPER_RULES, read_columns
from tests.reference.protocol_metrics import adherence, paper_metrics, predicted_steps
from tests.reference.scorer import parse_reference
from tests.reference.words import words

BODY = rollouts.as_request(list(rollouts.generate(8 if JIT else 2, 5, seed=9)))
ROWS = len(BODY["responses"])
JUNK = -77.0


class Batch:
    """The arguments that both kernels take."""

    def __init__(self, before: int = 0) -> None:
        warmup()
        _, self.references = read_columns(BODY["references"])
        self.responses = text_column(BODY["responses"], before, 3)
        self.index = frozen(np.array(BODY["reference_index"]), np.int64)
        self.codes = np.full(ROWS, 99, np.uint8)


class Scored(Batch):
    """A batch with its scores under the paper's rules."""

    def __init__(self, before: int = 0) -> None:
        super().__init__(before)
        self.rewards = np.full((1, ROWS), JUNK)
        self.values = np.full((len(COMPONENTS), ROWS), JUNK)
        self.workspace = workspace_for(self.responses, self.references.widest)

    def run(self, first: int, last: int) -> None:
        outputs = self.rewards, self.codes[None], self.values[None]
        columns = (*self.responses, self.index, self.references)
        score_slice(*outputs, first, last, *columns, configurations_of([PAPER_RULES]), tables(), self.workspace)


class Measured(Batch):
    """A batch with its measures: rows take turns with the first library, the second, and none."""

    def __init__(self, before: int = 0) -> None:
        super().__init__(before)
        actions = [sorted({" ".join(step.action) for step in parse_reference(r)}) for r in BODY["references"][:2]]
        self.actions = [[*names[1:], "wash", "wash the cells"] for names in actions]
        step = 'Step 1: {{"action": "{}", "objects": [], "parameters": []}}'
        _, self.libraries = read_columns(["\n".join(map(step.format, names)) for names in self.actions])
        self.chosen = [-1 if row % 3 == 2 else row % 3 for row in range(ROWS)]
        self.values = np.full((len(MEASURES), ROWS), JUNK)
        self.workspace = workspace_for(self.responses, max(self.references.widest, self.libraries.widest))

    def run(self, first: int, last: int, rules: Rules = PAPER_RULES) -> None:
        library_index = frozen(np.array(self.chosen), np.int64)
        columns = (*self.responses, self.index, self.references, library_index, self.libraries)
        measure_protocols(self.codes, self.values, first, last, *columns, rules, tables(), self.workspace)


def test_measures_are_the_twins():
    measured = Measured()
    measured.run(0, ROWS)
    allowed = [{tuple(words(action)) for action in names} for names in measured.actions]
    parsed = [parse_reference(reference) for reference in BODY["references"]]
    some_outside = 0
    for row, (response, k) in enumerate(zip(BODY["responses"], BODY["reference_index"], strict=True)):
        steps = predicted_steps(response)
        expected = {**paper_metrics(steps, parsed[k]), "steps": float(len(steps))}
        shares = adherence(steps, parsed[k], allowed[measured.chosen[row]]) if measured.chosen[row] >= 0 else None
        counts = [share * len(steps) for share in shares] if shares else [0.0, 0.0]
        expected |= dict(zip(("outside_library", "distractors"), counts, strict=True))
        assert dict(zip(MEASURES, measured.values[:, row].tolist(), strict=True)) == pytest.approx(expected, abs=1e-9)
        assert (measured.codes[row] == OK) == bool(steps)
        some_outside += counts[0] > 0
    assert some_outside
    assert KEY_NUMBERING not in measured.codes
    assert {REASONS[code] for code in measured.codes} > {"ok"}


@pytest.mark.parametrize("kernel", [Scored, Measured])
def test_only_rows_of_the_slice_are_written(kernel):
    """Also one row at a time and backwards: rows that were given up halfway leave nothing in the workspace."""
    whole, part, backwards = kernel(), kernel(before=11), kernel()
    whole.run(0, ROWS)
    part.run(3, 7)
    assert (part.values != JUNK).all(axis=0).tolist() == [3 <= row < 7 for row in range(ROWS)]
    assert part.values[:, 3:7].tobytes() == whole.values[:, 3:7].tobytes()
    assert part.codes.tolist() == [99] * 3 + whole.codes[3:7].tolist() + [99] * (ROWS - 7)
    for row in range(ROWS - 1, -1, -1):
        backwards.run(row, row + 1)
    assert backwards.values.tobytes() == whole.values.tobytes()
    assert backwards.codes.tobytes() == whole.codes.tobytes()


def test_limits_of_measures_are_those_of_the_rules():
    measured = Measured()
    measured.run(0, ROWS, PAPER_RULES._replace(max_response_bytes=1))
    assert {REASONS[code] for code in measured.codes} == {"too_long"}
    assert not measured.values.any()
    measured.run(0, ROWS, PAPER_RULES._replace(max_steps=1))
    assert measured.values[MEASURES.index("steps")].max() <= 1


def test_epochs_come_to_an_end():
    """Slots of the hash table carry the number of the text that wrote them; they restart before they overflow."""
    usual, late = Scored(), Scored()
    usual.run(0, ROWS)
    late.run(0, ROWS)
    late.workspace.ints[COUNTS, EPOCH] = EPOCH_LIMIT - 3
    late.run(0, ROWS)
    assert late.workspace.ints[COUNTS, EPOCH] < EPOCH_LIMIT / 2
    assert late.values.tobytes() == usual.values.tobytes()


def test_rules_of_a_row():
    """Every field keeps its value and its place among the numbers of a configuration."""
    for name in Rules._fields:
        value = getattr(PAPER_RULES, name)
        rules = PAPER_RULES._replace(**{name: not value if isinstance(value, bool) else value + 1})
        assert formula(rules_at)(configurations_of([PAPER_RULES, rules]), 1) == rules
