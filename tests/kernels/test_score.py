"""The kernel that scores a slice writes its rows and no others, whatever they contained before."""

from __future__ import annotations

import numpy as np
import pytest

from assay.kernels.column import frozen
from assay.kernels.compiler import JIT
from assay.kernels.memory import COUNTS, EPOCH
from assay.kernels.rules import REASONS, Rules
from assay.kernels.score import COMPONENTS, rules_at, score_slice
from assay.kernels.text.interning import EPOCH_LIMIT
from assay.kernels.text.unicode import tables
from assay.kernels.warmup import warmup
from assay.service.explain.alignment import formula
from assay.service.scoring.column_scorer import configurations_of
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
    """The outputs of a batch under `count` configurations (of the first, in attributes), and the other arguments."""

    def __init__(self, body: dict, before: int = 0, count: int = 1) -> None:
        warmup()
        verdicts, self.references = read_columns(body["references"])
        assert {verdict.reason for verdict in verdicts} == {"ok"}
        self.responses = text_column(body["responses"], before, 3)
        self.index = frozen(np.array(body["reference_index"]), np.int64)
        rows = self.responses.rows
        self.by_configuration = (
            np.full((count, rows), JUNK),
            np.full((count, rows), 99, np.uint8),
            np.full((count, len(COMPONENTS), rows), JUNK),
        )
        self.rewards, self.reasons, self.components = (outputs[0] for outputs in self.by_configuration)
        self.workspace = workspace_for(self.responses, self.references.widest)

    def score(self, first: int, last: int, *rules: Rules) -> None:
        configurations = configurations_of(rules or [PAPER_RULES])
        columns = (*self.responses, self.index, self.references)
        score_slice(*self.by_configuration, first, last, *columns, configurations, tables(), self.workspace)

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


GRID = (
    PAPER_RULES,
    PAPER_RULES._replace(reward_scale=1),
    PAPER_RULES._replace(lcs_order=True),
    PAPER_RULES._replace(min_coverage=0.5),
    PAPER_RULES._replace(min_coverage=0.5, position_decay=3.0),
    PAPER_RULES._replace(max_object_similarity=True, lcs_order=True),
    PAPER_RULES._replace(use_position=False, min_coverage=0.0, sum_total=True),
    PAPER_RULES,
)


def test_several_configurations(request_body):
    """Each has the bits that it has alone: of a whole batch, and of a single row, whatever the rows before."""
    together, single = Slices(request_body, count=len(GRID)), Slices(request_body, before=7, count=len(GRID))
    rows = len(together.rewards)
    together.score(0, rows, *GRID)
    for row in range(rows - 1, -1, -1):
        single.score(row, row + 1, *GRID)
    for k, rules in enumerate(GRID):
        alone = Slices(request_body)
        alone.score(0, rows, rules)
        for expected, *found in zip(
            alone.by_configuration, together.by_configuration, single.by_configuration, strict=True
        ):
            assert {columns[k].tobytes() for columns in found} == {expected[0].tobytes()}
    assert len({rewards.tobytes() for rewards in together.by_configuration[0]}) > 3


def test_rules_of_a_row():
    """Every field keeps its value and its place among the numbers of a configuration."""
    for name in Rules._fields:
        value = getattr(PAPER_RULES, name)
        rules = PAPER_RULES._replace(**{name: not value if isinstance(value, bool) else value + 1})
        assert formula(rules_at)(configurations_of([PAPER_RULES, rules]), 1) == rules


def test_rules_are_arguments(request_body):
    """One compiled kernel for every configuration."""
    raw, prefilled = Slices(request_body), Slices(request_body)
    raw.score(0, len(raw.rewards), PAPER_RULES._replace(reward_scale=1))
    assert raw.rewards.tolist() == raw.components[COMPONENTS.index("score")].tolist()
    prefilled.score(0, len(raw.rewards), PAPER_RULES._replace(think_prefilled=True))
    assert "think_not_opened" not in {REASONS[code] for code in prefilled.reasons}
