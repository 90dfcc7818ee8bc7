"""The kernel that scores a slice writes its rows and no others, whatever they contained before."""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.column import frozen
from assay.kernels.compiler.jit import JIT
from assay.kernels.memory.workspace import COUNTS, EPOCH
from assay.kernels.score import COMPONENTS, score_slice
from assay.kernels.status import REASONS
from assay.kernels.text.interning import EPOCH_LIMIT
from assay.kernels.text.unicode_tables import tables
from assay.kernels.warmup import warmup
from examples import rollouts
from tests.kernels.faces import text_column, workspace_for
from tests.kernels.reading import PAPER_RULES, read_columns
from tests.reference.scorer import score

PROMPTS = 8 if JIT else 2
JUNK = -77.0


@pytest.fixture(scope="module")
def request_body() -> dict:
    return rollouts.as_request(list(rollouts.generate(PROMPTS, 5, seed=4)))


class Slices:
    """The outputs of a batch, and the kernel's other arguments."""

    def __init__(self, body: dict, before: int = 0) -> None:
        warmup()
        verdicts, self.references = read_columns(body["references"])
        assert {verdict.reason for verdict in verdicts} == {"ok"}
        self.responses = text_column(body["responses"], before, 3)
        self.index = frozen(np.array(body["reference_index"]), np.int64)
        rows = self.responses.rows
        self.rewards, self.reasons = np.full(rows, JUNK), np.full(rows, 99, np.uint8)
        self.components = np.full((len(COMPONENTS), rows), JUNK)
        self.workspace = workspace_for(self.responses, self.references.widest)

    def score(self, first: int, last: int, rules=PAPER_RULES) -> None:
        outputs = (self.rewards, self.reasons, self.components)
        columns = (*self.responses, self.index, self.references)
        score_slice(*outputs, first, last, *columns, rules, tables(), self.workspace)

    def written(self) -> list[bool]:
        return (self.rewards != JUNK).tolist()


def test_against_twin(request_body):
    slices = Slices(request_body)
    slices.score(0, len(slices.rewards))
    for row, expected in enumerate(score(**request_body)):
        assert REASONS[slices.reasons[row]] == expected["reason"]
        assert slices.rewards[row] == pytest.approx(expected["reward"], abs=1e-12)
        found = dict(zip(COMPONENTS, slices.components[:, row], strict=True))
        assert found == pytest.approx({name: expected[name] for name in COMPONENTS}, abs=1e-12)


@pytest.mark.parametrize("cut", [(0, 0), (0, 1), (3, 3), (3, 7), (9, 10)])
def test_only_rows_of_the_slice_are_written(request_body, cut):
    whole, part = Slices(request_body), Slices(request_body, before=11)
    rows = len(whole.rewards)
    whole.score(0, rows)
    part.score(*cut)
    assert part.written() == [cut[0] <= row < cut[1] for row in range(rows)]
    inside = slice(*cut)
    assert part.rewards[inside].tobytes() == whole.rewards[inside].tobytes()
    assert part.components[:, inside].tobytes() == whole.components[:, inside].tobytes()
    assert set(part.reasons[: cut[0]]) | set(part.reasons[cut[1] :]) <= {99}


def test_rows_do_not_remember_each_other(request_body):
    """The same workspace, every row twice, forwards and backwards: also after rows that were given up halfway."""
    forwards, backwards = Slices(request_body), Slices(request_body)
    rows = len(forwards.rewards)
    forwards.score(0, rows)
    for row in [*range(rows), *range(rows - 1, -1, -1)]:
        backwards.score(row, row + 1)
    assert backwards.rewards.tobytes() == forwards.rewards.tobytes()
    assert backwards.components.tobytes() == forwards.components.tobytes()


def test_epochs_come_to_an_end(request_body):
    """Slots of the hash table carry the number of the text that wrote them; they restart before they overflow."""
    usual, late = Slices(request_body), Slices(request_body)
    rows = len(usual.rewards)
    usual.score(0, rows)
    late.score(0, rows)
    late.workspace.ints[COUNTS, EPOCH] = EPOCH_LIMIT - 3
    late.score(0, rows)
    assert late.workspace.ints[COUNTS, EPOCH] < EPOCH_LIMIT / 2
    assert late.components.tobytes() == usual.components.tobytes()


def test_rules_are_arguments(request_body):
    """One compiled kernel for every configuration."""
    raw, prefilled = Slices(request_body), Slices(request_body)
    raw.score(0, len(raw.rewards), PAPER_RULES._replace(reward_scale=1))
    assert raw.rewards.tolist() == raw.components[COMPONENTS.index("score")].tolist()
    prefilled.score(0, len(raw.rewards), PAPER_RULES._replace(think_prefilled=True))
    assert "think_not_opened" not in {REASONS[code] for code in prefilled.reasons}
