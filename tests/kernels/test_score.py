"""The kernels that score and measure a slice write its rows and no others, whatever they contained before.

Their values are compared with the twin's in tests/scoring and tests/evaluate.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.batch import Texts, allocate_memory, new_progress, score_batch
from assay.kernels.column import frozen
from assay.kernels.compiler import JIT
from assay.kernels.memory import COUNTS, EPOCH
from assay.kernels.protocol_metrics import MEASURES, measure_protocols
from assay.kernels.reading.references import References
from assay.kernels.request import new_request
from assay.kernels.rules import Rules
from assay.kernels.score import COMPONENTS, rules_at
from assay.kernels.text.interning import EPOCH_LIMIT
from assay.kernels.text.unicode import tables
from assay.kernels.warmup import warmup
from assay.service.explain.alignment import formula
from assay.service.scoring.configurations import configurations_of
from examples import rollouts
from tests.kernels.faces import text_column, workspace_for
from tests.kernels.reading import PAPER_RULES, read_columns

BODY = rollouts.as_request(list(rollouts.generate(8 if JIT else 2, 5, seed=9)))
ROWS = len(BODY["responses"])
JUNK = -77.0


class Outputs:
    """The outputs of one of the kernels, and its other arguments."""

    def __init__(self, measures: bool = False, before: int = 0) -> None:
        warmup()
        self.measures = measures
        _, self.references = read_columns(BODY["references"])
        self.responses = text_column(BODY["responses"], before, 3)
        self.index = frozen(np.array(BODY["reference_index"]), np.int64)
        self.codes = np.full(ROWS, 99, np.uint8)
        self.values = np.full((len(MEASURES if measures else COMPONENTS), ROWS), JUNK)
        self.workspace = workspace_for(self.responses, self.references.widest)
        room = References(*[column[None].copy() for column in self.references])
        text_rows, numbers = self.workspace.bytes[None], self.workspace.ints[None]
        memory = allocate_memory(1, 0, 0, 0, 0, 0, 0)
        self.memory = memory._replace(bytes=text_rows, ints=numbers, references=room)

    def run(self, first: int, last: int) -> None:
        columns = (*self.responses, self.index, self.references)
        if self.measures:  # some rows with a library of actions: that of the first reference
            library = frozen(np.arange(ROWS) % 2 - 1, np.int64), self.references
            outputs = self.codes, self.values, first, last
            measure_protocols(*outputs, *columns, *library, PAPER_RULES, tables(), self.workspace)
        else:
            batch = new_request(64, 1).batch._replace(
                progress=new_progress(),
                shares=frozen(np.array([[0, 0, first, last]]), np.int64),
                order=np.arange(ROWS),
                responses=Texts.in_column(self.responses),
                reference_index=self.index,
                configurations=configurations_of([PAPER_RULES]),
                rewards=np.zeros((1, ROWS)),
                reasons=self.codes[None],
                components=self.values[None],
                memory=self.memory,
            )
            assert score_batch(0, batch)


@pytest.mark.parametrize("measures", [False, True])
def test_only_rows_of_the_slice_are_written(measures):
    """Also one row at a time and backwards: rows that were given up halfway leave nothing in the workspace."""
    whole, part, backwards = Outputs(measures), Outputs(measures, before=11), Outputs(measures)
    whole.run(0, ROWS)
    part.run(3, 7)
    assert (part.values != JUNK).all(axis=0).tolist() == [3 <= row < 7 for row in range(ROWS)]
    assert part.values[:, 3:7].tobytes() == whole.values[:, 3:7].tobytes()
    assert part.codes.tolist() == [99] * 3 + whole.codes[3:7].tolist() + [99] * (ROWS - 7)
    for row in range(ROWS - 1, -1, -1):
        backwards.run(row, row + 1)
    assert backwards.values.tobytes() == whole.values.tobytes()
    assert backwards.codes.tobytes() == whole.codes.tobytes()


def test_epochs_come_to_an_end():
    """Slots of the hash table carry the number of the text that wrote them; they restart before they overflow."""
    usual, late = Outputs(), Outputs()
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
