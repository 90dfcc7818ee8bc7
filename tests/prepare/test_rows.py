"""The row of each trainer and stage for a record, and answers that are not to be learned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.research.prepare.examples import Example, PrepareOptions
from assay.research.prepare.preparation import STAGE_TRAINERS, RowMaker
from assay.service.errors import UsageError
from assay.service.records.rows.forms import SUPERVISED, TRAINERS
from assay.service.records.rows.rows import Fault, Location, RowPlace
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED

MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "p"}]
IDEAL = [*MESSAGES, {"role": "assistant", "content": "ideal"}]
NAMED = {"id": "a", "task": "score"}
ABOUT = {"group": "g", "level": "1", "type": "", "split": "train"}
VERL = {
    "data_source": "score",
    "prompt": MESSAGES,
    "ability": "protocol",
    "reward_model": {"style": "rule", "ground_truth": REFERENCE},
    "extra_info": {"index": "a", **ABOUT},
}
LABEL = json.dumps({"task": "score", "reference": REFERENCE}, separators=(",", ":"))
PROMPTS: dict[str, dict[str, Any]] = {
    "trl": {"prompt": MESSAGES, "reference": REFERENCE, **NAMED, **ABOUT},
    "verl": VERL,
    "openrlhf": {"input": MESSAGES, "label": LABEL, "id": "a", **ABOUT},
    "ms-swift": {"messages": MESSAGES, "reference": REFERENCE, **NAMED, **ABOUT},
    "slime": {"prompt": MESSAGES, "label": LABEL, "metadata": {"id": "a", **ABOUT}},
    "areal": {"messages": MESSAGES, "reference": REFERENCE, "query_id": "a", "task": "score", **ABOUT},
    "skyrl": {
        **{name: VERL[name] for name in ("data_source", "prompt", "extra_info")},
        **{"env_class": "assay", "reward_spec": VERL["reward_model"], "task": "score"},
    },
    "prime-rl": {"prompt": MESSAGES, "answer": REFERENCE, "info": {**NAMED, **ABOUT}},
    "harbor": {"prompt": MESSAGES, "reference": REFERENCE, **NAMED, **ABOUT},
    "nemo-gym": {"responses_create_params": {"input": MESSAGES}, "reference": REFERENCE, **NAMED, **ABOUT},
}
ANSWERS: dict[str, dict[str, Any]] = {
    "trl": {"prompt": MESSAGES, "completion": IDEAL[2:]},
    "openrlhf": {"input": MESSAGES, "output": IDEAL[2:]},
}
PLACE = RowPlace("records.jsonl", Location("line", 1))


def example(**fields: Any) -> Example:
    values = {"task": "score", "question": "p", "reference": STEPS, "record": {}, "level": "1"}
    return Example(place=PLACE, id="a", dataset="scirecipe", **(values | fields))


def row_of(maker: RowMaker, example_of_row: Example) -> dict[str, Any] | Fault:
    return maker.row(example_of_row, MESSAGES, "ideal", "g", "train")


@pytest.mark.parametrize("trainer", TRAINERS)
def test_prompts(trainer: str) -> None:
    """tests/trainers/test_prepared_rows.py gives such rows to the trainers themselves."""
    steps = [json.loads(line.partition(": ")[2]) for line in REFERENCE.splitlines()]
    assert steps == STEPS["steps"]
    assert row_of(RowMaker(PrepareOptions(trainer)), example(reference=REFERENCE)) == PROMPTS[trainer]


@pytest.mark.parametrize("trainer", SUPERVISED)
def test_answers(trainer: str) -> None:
    row = row_of(RowMaker(PrepareOptions(trainer, "supervised")), example())
    assert row == {**ANSWERS.get(trainer, {"messages": IDEAL}), **NAMED, **ABOUT, "answer_from": "reference"}


def test_published_answers() -> None:
    """SCORE's are learned as they are, if they get the full reward; those of other tasks in the form asked for."""
    maker = RowMaker(PrepareOptions("trl", "supervised"))
    published = row_of(maker, example(answer=PERFECT))
    assert isinstance(published, dict)
    assert published["completion"] == [{"role": "assistant", "content": PERFECT}]
    assert published["answer_from"] == "record"
    other = row_of(maker, example(task="bioprobench.pqa", reference={"answer": "5 ml"}, answer="5 ml"))
    assert isinstance(other, dict)
    assert (other["completion"][0]["content"], other["answer_from"]) == ("ideal", "reference")
    failing = row_of(maker, example(answer="<key>nothing</key>"))
    assert failing == Fault("answer_fails", "its answer fails a gate (missing_sections)")
    worse = row_of(maker, example(answer=SWAPPED))
    assert worse == Fault("answer_fails", "its answer does not get the full reward with its reference: 0.3879")


def test_texts_and_stages() -> None:
    maker = RowMaker(PrepareOptions("ms-swift", "knowledge"))
    assert row_of(maker, example(text="Wash the cells.")) == {"text": "Wash the cells.", "id": "a", **ABOUT}
    assert row_of(maker, example()) == Fault("no_text", "it has no text of a protocol")
    with pytest.raises(UsageError, match="areal has no rows for the stage supervised; these have: trl, verl, openrlhf"):
        RowMaker(PrepareOptions("areal", "supervised"))
    for stage, trainers in STAGE_TRAINERS.items():
        assert set(trainers) <= set(TRAINERS)
        assert "trl" in trainers, f"the default trainer has the stage {stage}"
