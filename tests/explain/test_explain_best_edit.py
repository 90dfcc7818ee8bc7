"""The first suggestion is the best edit of one step: no brute-force search finds a better one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain

import pytest

from assay import Scorer
from assay.kernels.compiler import JIT
from assay.service.explain import suggestions
from assay.service.explain.explanation import explain
from tests.cases import told
from tests.cases.writing import Steps, step
from tests.explain.recomputing import LABORATORY, explained

MANY = {"add_steps", "drop_steps", "replace_steps", "sort_steps"}
CASES = 200 if JIT else 4
CONFIGS = [
    {},
    {"order": "lcs", "semantics": "product"},
    {"content_denominator": "max_len", "total": "sum"},
    {"use_position": False, "order": "lcs"},
    {"object_similarity": "max"},
    {"parameter_similarity": "quantities", "max_added_numbers": 0},
    {"quantity_error_factor": 0.5},
    LABORATORY | {"max_added_words": 0},
]
QUANTITIES = ["", "300 s", "0.3 l|4 °c", "5.0 min|10 ml", "10⁶ cells"]


def steps_of(text: str) -> Steps:
    """Return steps written as `add[pbs], load[gel]`; a further bracket has parameters."""
    return [step(*part.rstrip("]").split("[")) for part in text.split(", ")]


def single_edits(steps: Steps, reference: Steps) -> Iterator[Steps]:
    """Yield what every edit of one step makes of the steps."""
    n = len(steps)
    for i in range(n):
        rest = steps[:i] + steps[i + 1 :]
        if rest:
            yield rest
        yield from ([*rest[:k], steps[i], *rest[k:]] for k in range(n))
        for other in reference:
            yield [*steps[:i], other, *steps[i + 1 :]]
            for name in ("action", "objects", "parameters"):
                yield [*steps[:i], steps[i] | {name: other[name]}, *steps[i + 1 :]]
        for k in range(i):
            swapped = list(steps)
            swapped[i], swapped[k] = swapped[k], swapped[i]
            yield swapped
    for k in range(n + 1):
        yield from ([*steps[:k], other, *steps[k:]] for other in reference)


def damaged(rng: random.Random, references: int) -> list[Steps]:
    """Return steps and some references, one of which they were made from by a few edits; actions repeat."""
    actions = ["add", "spin", "wash", "mix", "run"][: rng.choice([2, 3, 5])]
    objects = ["pbs", "rna", "gel", "cold buffer", "buffer|tube", "cold buffer|rna tube", "cold buffer|rna"]
    parameters = ["", "5 min", "10 ml|4 °c", "10⁶ cells", *rng.choice([[], QUANTITIES])]

    def drawn() -> dict:
        return step(rng.choice(actions), rng.choice(objects), rng.choice(parameters))

    several = [[drawn() for _ in range(rng.randint(1, 6 if references == 1 else 4))] for _ in range(references)]
    steps = [dict(element) for element in rng.choice(several)]
    for _ in range(rng.randint(1, 4)):
        edit, k = rng.randrange(4), rng.randrange(len(steps))
        if edit == 0 and len(steps) > 1:
            del steps[k]
        elif edit == 1:
            steps.insert(k, drawn())
        elif edit == 2:
            steps.insert(k, steps.pop(rng.randrange(len(steps))))
        else:
            steps[k] = steps[k] | {name: value for name, value in drawn().items() if rng.random() < 0.5}
    return [steps, *several]


@pytest.mark.parametrize("alternatives", [1, 3])
def test_no_edit_of_one_step_is_better(alternatives):
    """With alternatives, an edit takes from any of them and is scored against all."""
    for seed in range(CASES):
        rng = random.Random(seed)
        steps, *references = damaged(rng, alternatives)
        reference = {"any_of": [{"steps": alternative} for alternative in references]}
        scorer = Scorer(**CONFIGS[seed % len(CONFIGS)])
        explanation = explain(scorer, told(steps), reference if alternatives > 1 else reference["any_of"][0], 20)
        edited = [told(changed) for changed in single_edits(steps, list(chain(*references)))]
        best = float(scorer.score(edited, [reference]).rewards.max()) - explanation.reward
        gains = [suggestion.gain for suggestion in explanation.suggestions]
        single = [suggestion.gain for suggestion in explanation.suggestions if suggestion.kind not in MANY]
        assert explanation.exhaustive is not False, seed
        assert max(best, 0.0) <= max(gains, default=0.0) + 1e-9, seed
        assert not single or best <= single[0] + 1e-9, seed


def test_an_edit_may_lead_to_another_alternative(monkeypatch):
    near, far = steps_of("add[rna], wash[tube]"), steps_of("add[pbs], wash[gel], run[rna]")
    reference = {"any_of": [{"steps": near}, {"steps": far}]}
    explanation = explained(told(far[:2]), reference, {}, 1)
    assert (explanation["alternative"], [entry["reward"] for entry in explanation["alternatives"]]) == (0, [0.4, 0.0])
    (first,) = explanation["suggestions"]
    assert (first["alternative"], first["reference_steps"], first["reward"]) == (1, [3], 1.0)
    assert first["text"].startswith("Add alternative 2's step 3 (run) after step 2: ")
    assert explanation["exhaustive"] is True
    monkeypatch.setattr(suggestions, "MAX_BYTES", 10)
    explanation = explained(told(far[:2]), reference, {}, 20)
    assert {entry["alternative"] for entry in explanation["suggestions"]} == {0}
    assert explanation["exhaustive"] is False


def test_rewritten_prose_has_no_number_of_its_own():
    steps, reference = steps_of("add[pbs[5 ml]"), steps_of("add[pbs[3 ml]")
    explanation = explained(told(steps), {"steps": reference}, {"max_added_numbers": 0}, 1)
    assert [(suggestion["kind"], suggestion["reward"]) for suggestion in explanation["suggestions"]] == [
        ("use_parameters", 1.0)
    ]


@pytest.mark.parametrize("wanted", [0, 5])
def test_nothing_is_searched_without_need(wanted):
    steps = steps_of("spin[pbs], add[rna]")
    document = explained(told(steps if wanted else steps[::-1]), {"steps": steps}, {}, wanted)
    assert (document["tried"], document["exhaustive"]) == (0, None)


def test_a_response_that_begins_inside_think_is_searched_as_well():
    steps, reference = steps_of("add[pbs], spin[rna]"), steps_of("spin[rna], add[pbs]")
    explanation = explained(told(steps).removeprefix("<think>"), {"steps": reference}, {"think_prefilled": True}, 1)
    assert [(suggestion["kind"], suggestion["reward"]) for suggestion in explanation["suggestions"]] == [
        ("swap_steps", 1.0)
    ]
