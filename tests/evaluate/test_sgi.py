"""SGI-WetExperiment's metrics against their definition, and the table of docs/sgi.md of what they do not see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.service.records.rows.answers import to_record
from assay.service.tasks.evaluation import evaluate
from assay.service.tasks.sgi import TASK, Protocol, ProtocolScore, Step, compared, inversions, steps_in
from assay.service.tasks.task import StepError
from assay.service.wire.contract import EvaluateReply
from tests.command_line import ROOT, read_rows
from tests.reference import sgi as twin
from tests.strategies import examples

PIECES = ["a=<A>(", "b = <B>(\n", "é=<", "<A>(", "\n)\n", "\n \t)", "a=b,", 'b = "a" ,']
PIECES += ')_²=<>(\n\n\r\v\x85\u2028\xa0 ,"\x1c\ud800'
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
NAMES = st.sampled_from("abc")


def written(steps: Sequence[Step], line: str = "    {}={}", comma: str = ",", closing: str = "\n)") -> str:
    """Write a protocol as the benchmark does: outputs bare, other values in quotes."""
    outputs = {step.output for step in steps}
    texts = []
    for step in steps:
        values = {name: value if value in outputs else f'"{value}"' for name, value in step.parameters.items()}
        lines = f"{comma}\n".join(line.format(name, value) for name, value in values.items())
        texts.append(f"{step.output} = <{step.action}>(\n{lines}{closing}")
    return "\n\n".join(texts)


PROTOCOLS = st.lists(
    st.builds(Step, NAMES, st.dictionaries(NAMES, st.sampled_from("abcd"), min_size=1, max_size=2), NAMES), max_size=6
).map(written)


@given(TEXTS)
@examples(600)
def test_steps_are_those_of_the_expressions(text: str) -> None:
    assert [tuple(step) for step in steps_in(text)] == twin.steps_in(text)


@given(st.one_of(TEXTS, PROTOCOLS), PROTOCOLS)
@examples(300)
def test_metrics_by_their_definition(reference: str, answer: str) -> None:
    score, _ = compared(Protocol.of(reference), Protocol.of(answer))
    assert (None if score is None else (*score, score.final)) == twin.scores(reference, answer)


@pytest.mark.parametrize("size", [3, 256, 257, 700])
def test_inversions_of_many_steps(size: int) -> None:
    values = np.random.default_rng(size).integers(0, 40, size)
    assert inversions(values) == np.triu(values[:, None] > values[None, :], 1).sum()


EXAMPLES = read_rows(ROOT / "examples" / "wet_experiment.jsonl")
FOLLOWING = [(3, "suspension"), (4, "lysate"), (5, "lysate"), (6, "column"), (7, "sample")]
"""The steps of the first example after the second, each with the parameter that is the output of the step before."""


def test_records_and_their_failures(client: Any) -> None:
    """Answers in blocks and without steps, references without steps, and groups; over HTTP the same."""
    right = EXAMPLES[0]["answer"]
    answers = [f"So:\n<answer>\n{right}\n</answer>.", None, right, "None"]
    records = [EXAMPLES[0] | {"model_answer": answer} for answer in answers]
    records[2:] = [record | {"answer": "Spin it.", "discipline": "earth"} for record in records[2:]]
    result = evaluate("sgi.wet_experiment", records, by=["discipline"])
    assert result.per_record["final_score"].tolist()[:3] == [1.0, 0.0, 0.0]
    assert math.isnan(result.per_record["final_score"][3])
    assert [(row, reason, by_answer) for row, reason, by_answer in result.failed] == [
        (1, "no_steps", True),
        (2, "no_reference_steps", False),
        (3, "no_reference_steps", False),
    ]
    assert result.by["discipline"]["life"]["final_score"] == 0.5
    request = {"task": "sgi.wet_experiment", "records": records, "options": {"by": ["discipline"]}}
    document = client.post("/v1/evaluate", json=request).json()
    EvaluateReply.model_validate(document)
    assert (document["aggregate"], document["by"]) == (result.aggregate, result.by)
    errors = [[StepError(**error) for error in errors] for errors in document["step_errors"]]
    assert errors == result.step_errors == [[], [(1, "missing", [])], [(1, "additional", [])], []]


def test_a_file_without_answers_is_an_error() -> None:
    record, fault, _ = to_record(TASK, {}, {"answer": "a", "response": "b"}, {})
    assert (record["model_answer"], fault) == ("b", None)
    fault = to_record(TASK, {}, {"answer": "a"}, {})[1]
    assert fault is not None
    assert fault.reason == "missing_field"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("<Resuspend pellet>", "<resuspend pellet>", (2, "action", [])),
        ('volume="250 µl"', 'ml="0.25"', (2, "parameters", ["ml", "volume"])),
        ("pellet=pellet", 'pellet="cells"', (2, "sources", ["pellet"])),
        ("pellet=pellet", "pellet=suspension", (2, "sources", ["pellet"])),
        ('"250 µl"', "pellet", (2, "sources", ["volume"])),
    ],
)
def test_an_error_names_its_step_and_parameters(old: str, new: str, error: StepError) -> None:
    """The steps after it whose input is its output are errors as well."""
    record = EXAMPLES[0] | {"model_answer": EXAMPLES[0]["answer"].replace(old, new)}
    (errors,) = evaluate("sgi.wet_experiment", [record]).step_errors
    assert [*errors] == [error, *((step, "sources", [name]) for step, name in FOLLOWING)]


def valued(steps: Sequence[Step], value: str) -> list[Step]:
    """Return the steps with this value in place of all that are no outputs."""
    made = {step.output for step in steps}
    return [
        step._replace(parameters={name: old if old in made else value for name, old in step.parameters.items()})
        for step in steps
    ]


Change = Callable[[list[Step]], str]
UNSEEN: dict[str, Change] = {
    "every value wrong: `999 l`": lambda steps: written(valued(steps, "999 l")),
    "every value empty": lambda steps: written(valued(steps, "")),
    "`# Discard everything.` after every step": lambda steps: written(steps, closing="\n)\n# Discard everything."),
    "one action in all steps": lambda steps: written([steps[0]] * len(steps)),
    "as many steps, each `x = <A>(…)`": lambda steps: written([Step("A", {"a": "b"}, "x")] * len(steps)),
}
HONEST: dict[str, Change] = {
    "other names of outputs, no commas, other indentation": lambda steps: written(steps, "{} = {}", comma=""),
    "one parameter more in the first step": lambda steps: written(
        [steps[0]._replace(parameters=steps[0].parameters | {"tube": "15 ml"}), *steps[1:]]
    ),
    "the actions in lower case": lambda steps: written([s._replace(action=s.action.lower()) for s in steps]),
    "the first two steps exchanged": lambda steps: written([steps[1], steps[0], *steps[2:]]),
    "the last step left out": lambda steps: written(steps[:-1]),
    "a last step more": lambda steps: written([*steps, Step("Store sample", {"sample": "rest"}, "stored")]),
    "the closing bracket on the last parameter's line": lambda steps: written(steps, closing=")"),
}


def table(head: str, changes: dict[str, Change]) -> str:
    lines = [f"| {head} | actions | parameters | score |", "|---|---|---|---|"]
    for name, change in changes.items():
        protocols = [(Protocol.of(row["answer"]), Protocol.of(change([*steps_in(row["answer"])]))) for row in EXAMPLES]
        read = [score for score, _ in map(compared, *zip(*protocols, strict=True)) if score is not None]
        columns = [*map(mean, zip(*read, strict=True)), mean(score.final for score in read)]
        lines.append(f"| {name} | {' | '.join(f'{value:.2f}' for value in columns)} |")
    return "\n".join(lines)


def test_what_the_score_does_not_see() -> None:
    page = (ROOT / "docs" / "sgi.md").read_text(encoding="utf-8")
    assert all(compared(*[Protocol.of(row["answer"])] * 2) == (ProtocolScore(1.0, 1.0), []) for row in EXAMPLES)
    for expected in (table("change", UNSEEN), table("other words", HONEST)):
        assert expected in page, f"docs/sgi.md should have:\n{expected}"
