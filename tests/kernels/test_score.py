"""The kernels that score and measure a slice write its rows and no others, whatever they contained before."""

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
from tests.reference.scorer import parse_reference, score
from tests.reference.words import words

PROMPTS = 8 if JIT else 2
JUNK = -77.0


@pytest.fixture(scope="module")
def request_body() -> dict:
    return rollouts.as_request(list(rollouts.generate(PROMPTS, 5, seed=4)))


class Scored:
    """The outputs of a batch under `count` configurations (of the first, in attributes), and the other arguments."""

    def __init__(self, body: dict, before: int = 0, count: int = 1) -> None:
        warmup()
        verdicts, self.references = read_columns(body["references"])
        assert {verdict.reason for verdict in verdicts} == {"ok"}
        self.responses = text_column(body["responses"], before, 3)
        self.index = frozen(np.array(body["reference_index"]), np.int64)
        self.rows = self.responses.rows
        self.by_configuration = (
            np.full((count, self.rows), JUNK),
            np.full((count, self.rows), 99, np.uint8),
            np.full((count, len(COMPONENTS), self.rows), JUNK),
        )
        self.rewards, self.reasons, self.components = (outputs[0] for outputs in self.by_configuration)
        self.workspace = workspace_for(self.responses, self.references.widest)

    def run(self, first: int, last: int, *rules: Rules) -> None:
        configurations = configurations_of(rules or [PAPER_RULES])
        columns = (*self.responses, self.index, self.references)
        score_slice(*self.by_configuration, first, last, *columns, configurations, tables(), self.workspace)

    def outputs(self) -> list[np.ndarray]:
        return [self.rewards, self.reasons, self.components]


class Measured:
    """The outputs of a batch, and the other arguments: rows take turns with the first library, the second, and none."""

    def __init__(self, body: dict, before: int = 0) -> None:
        warmup()
        _, self.references = read_columns(body["references"])
        actions = [sorted({" ".join(step.action) for step in parse_reference(r)}) for r in body["references"][:2]]
        self.actions = [[*names[1:], "wash", "wash the cells"] for names in actions]
        step = 'Step 1: {{"action": "{}", "objects": [], "parameters": []}}'
        _, self.libraries = read_columns(["\n".join(map(step.format, names)) for names in self.actions])
        self.responses = text_column(body["responses"], before, 3)
        self.index = frozen(np.array(body["reference_index"]), np.int64)
        self.rows = self.responses.rows
        self.chosen = [-1 if row % 3 == 2 else row % 3 for row in range(self.rows)]
        self.library_index = frozen(np.array(self.chosen), np.int64)
        self.statuses = np.full(self.rows, 99, np.uint8)
        self.measures = np.full((len(MEASURES), self.rows), JUNK)
        self.workspace = workspace_for(self.responses, max(self.references.widest, self.libraries.widest))

    def run(self, first: int, last: int, rules: Rules = PAPER_RULES) -> None:
        columns = (*self.responses, self.index, self.references, self.library_index, self.libraries)
        measure_protocols(self.statuses, self.measures, first, last, *columns, rules, tables(), self.workspace)

    def outputs(self) -> list[np.ndarray]:
        return [self.measures[0], self.statuses, self.measures]


by_kernel = pytest.mark.parametrize("kernel", [Scored, Measured])


def test_scores_are_the_twins(request_body):
    scored = Scored(request_body)
    scored.run(0, scored.rows)
    for row, expected in enumerate(score(**request_body)):
        assert REASONS[scored.reasons[row]] == expected["reason"]
        assert scored.rewards[row] == pytest.approx(expected["reward"], abs=1e-12)
        components = dict(zip(COMPONENTS, scored.components[:, row], strict=True))
        assert components == pytest.approx({name: expected[name] for name in COMPONENTS}, abs=1e-12)


def test_measures_are_the_twins():
    request = rollouts.as_request(list(rollouts.generate(PROMPTS, 5, seed=9)))
    measured = Measured(request)
    measured.run(0, measured.rows)
    allowed = [{tuple(words(action)) for action in names} for names in measured.actions]
    parsed = [parse_reference(reference) for reference in request["references"]]
    some_outside = 0
    for row, (response, k) in enumerate(zip(request["responses"], request["reference_index"], strict=True)):
        steps = predicted_steps(response)
        expected = {**paper_metrics(steps, parsed[k]), "steps": float(len(steps))}
        shares = adherence(steps, parsed[k], allowed[measured.chosen[row]]) if measured.chosen[row] >= 0 else None
        counts = [share * len(steps) for share in shares] if shares else [0.0, 0.0]
        expected |= dict(zip(("outside_library", "distractors"), counts, strict=True))
        assert dict(zip(MEASURES, measured.measures[:, row].tolist(), strict=True)) == pytest.approx(expected, abs=1e-9)
        assert (measured.statuses[row] == OK) == bool(steps)
        some_outside += counts[0] > 0
    assert some_outside
    assert KEY_NUMBERING not in measured.statuses
    assert {REASONS[code] for code in measured.statuses} > {"ok"}


@pytest.mark.parametrize("cut", [(0, 0), (0, 1), (3, 3), (3, 7), (9, 10)])
@by_kernel
def test_only_rows_of_the_slice_are_written(request_body, kernel, cut):
    whole, part = kernel(request_body), kernel(request_body, before=11)
    whole.run(0, whole.rows)
    part.run(*cut)
    values, codes, _ = part.outputs()
    assert (values != JUNK).tolist() == [cut[0] <= row < cut[1] for row in range(whole.rows)]
    for complete, sliced in zip(whole.outputs(), part.outputs(), strict=True):
        assert sliced[..., slice(*cut)].tobytes() == complete[..., slice(*cut)].tobytes()
    assert set(codes[: cut[0]]) | set(codes[cut[1] :]) <= {99}


@by_kernel
def test_rows_do_not_remember_each_other(request_body, kernel):
    """The same workspace, every row twice, forwards and backwards: also after rows that were given up halfway."""
    forwards, backwards = kernel(request_body), kernel(request_body)
    forwards.run(0, forwards.rows)
    for row in [*range(forwards.rows), *range(forwards.rows - 1, -1, -1)]:
        backwards.run(row, row + 1)
    for expected, outputs in zip(forwards.outputs(), backwards.outputs(), strict=True):
        assert outputs.tobytes() == expected.tobytes()


def test_limits_are_those_of_the_rules(request_body):
    measured = Measured(request_body)
    measured.run(0, measured.rows, PAPER_RULES._replace(max_response_bytes=1))
    assert {REASONS[code] for code in measured.statuses} == {"too_long"}
    assert not measured.measures.any()
    measured.run(0, measured.rows, PAPER_RULES._replace(max_steps=1))
    assert measured.measures[MEASURES.index("steps")].max() <= 1
    prefilled = Scored(request_body)
    prefilled.run(0, prefilled.rows, PAPER_RULES._replace(think_prefilled=True))
    assert "think_not_opened" not in {REASONS[code] for code in prefilled.reasons}


def test_epochs_come_to_an_end(request_body):
    """Slots of the hash table carry the number of the text that wrote them; they restart before they overflow."""
    usual, late = Scored(request_body), Scored(request_body)
    usual.run(0, usual.rows)
    late.run(0, usual.rows)
    late.workspace.ints[COUNTS, EPOCH] = EPOCH_LIMIT - 3
    late.run(0, usual.rows)
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
    together, single = Scored(request_body, count=len(GRID)), Scored(request_body, before=7, count=len(GRID))
    together.run(0, together.rows, *GRID)
    for row in range(together.rows - 1, -1, -1):
        single.run(row, row + 1, *GRID)
    for k, rules in enumerate(GRID):
        alone = Scored(request_body)
        alone.run(0, alone.rows, rules)
        for expected, *outputs in zip(
            alone.by_configuration, together.by_configuration, single.by_configuration, strict=True
        ):
            assert {columns[k].tobytes() for columns in outputs} == {expected[0].tobytes()}
    assert len({rewards.tobytes() for rewards in together.by_configuration[0]}) > 3
    assert (
        together.by_configuration[0][1].tolist() == together.by_configuration[2][1, COMPONENTS.index("score")].tolist()
    )


def test_rules_of_a_row():
    """Every field keeps its value and its place among the numbers of a configuration."""
    for name in Rules._fields:
        value = getattr(PAPER_RULES, name)
        rules = PAPER_RULES._replace(**{name: not value if isinstance(value, bool) else value + 1})
        assert formula(rules_at)(configurations_of([PAPER_RULES, rules]), 1) == rules
