"""The forms of published records, recognized by their fields, with an example of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import one_of
from ...rewards.registry import REWARD_TASKS, SCORE
from .fields import CONVERSATION_NAMES, MAX_LISTED, PROMPT_NAMES, REFERENCE_NAMES
from .forms import task_at
from .rows import Fault

QUESTION_NAMES = (*PROMPT_NAMES, "goal", "title")
"""Fields that may hold the question of a protocol, in the order in which they are tried."""

QUESTION_ONLY = ("question", "exp_goal", "goal", "title")
"""Fields that are a question, but not a prompt unless the record has a system message."""

STEPS_NAMES = ("hierarchical_protocol", "procedures", "procedure", "protocols", "protocol")
"""Fields that may hold the steps of a structured protocol, in the order in which they are tried."""

PROTOCOL_QA = "labbench.protocolqa"
PROTOCOL = "protocol"

ERR_FIELDS = (("is_correct",), ("corrupted_text", "corrected_text"))
SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "bioprobench.err": ERR_FIELDS,
    "bioprobench.rea_err": ERR_FIELDS,
    "bioprobench.ord": (("question",), ("wrong_steps",), ("correct_steps",)),
    "bioprobench.pqa": (("question",), ("choices",), ("answer",)),
    PROTOCOL_QA: (("question",), ("ideal",), ("distractors", "files")),
    "sgi.wet_experiment": (("question",), ("action_pool",), ("answer",)),
    "bioprobench.gen": (("system_prompt",), ("input",), ("output",)),
    "bioprot": (("title",), ("steps",), ("edited_pseudocode", "generated_pseudocode")),
    "scirecipe": (QUESTION_NAMES, ("key",)),
    "rows": (QUESTION_NAMES, (*REFERENCE_NAMES, "steps", "response", *CONVERSATION_NAMES)),
    "text": (("text",),),
    PROTOCOL: (STEPS_NAMES,),
}
"""The fields that an unfolded record of each form has: of each group at least one. The first form that fits is taken.
REA-ERR has the fields of ERR, so that it has to be named as the task."""

FORMS = tuple(SHAPES)

EXAMPLES = {
    "bioprobench.err": '{"corrupted_text": "Boil it.", "corrected_text": "Chill it.", "is_correct": false}',
    "bioprobench.rea_err": '{"task": "bioprobench.rea_err", "corrected_text": "Chill it.", "is_correct": true}',
    "bioprobench.ord": '{"question": "Sort.", "wrong_steps": ["Dry.", "Wash."], "correct_steps": ["Wash.", "Dry."]}',
    "bioprobench.pqa": '{"question": "Add ____.", "choices": ["1 ml", "2 ml"], "answer": "2 ml"}',
    PROTOCOL_QA: '{"question": "Why?", "ideal": "Heat.", "distractors": ["Light."], "protocol": "1. Boil it."}',
    "sgi.wet_experiment": r'{"question": "Dry it.", "action_pool": "<Dry>(x)", "answer": "a = <Dry>(\n x=b\n)"}',
    "bioprobench.gen": '{"system_prompt": "Be brief.", "input": "How to dry?", "output": ["1. Heat.", "2. Wait."]}',
    "bioprot": '{"title": "Drying", "steps": "1. Dry it.", "generated_pseudocode": "dry()"}',
    "scirecipe": r'{"question": "How?", "key": "Step 1: {\"action\": \"dry\", \"objects\": [], \"parameters\": []}"}',
    "rows": '{"question": "How?", "steps": [{"action": "dry", "objects": ["slide"], "parameters": ["1 h"]}]}',
    "text": '{"text": "Dry the slide for an hour."}',
    PROTOCOL: '{"title": "Drying", "hierarchical_protocol": {"1": {"title": "Heat"}, "1.1": "Dry the slide."}}',
}
"""A short record of each form, as JSON."""

TASKS = (*REWARD_TASKS, "bioprobench.rea_err", "bioprobench.gen")
"""The names that the task or the field `task` of a record may have."""

FORM_OF_TASK = {SCORE: "scirecipe", "bioplanner": "bioprot", "lexical": "bioprobench.gen"}
TASK_OF_FORM = {
    name: name for name in ("bioprobench.err", "bioprobench.ord", "bioprobench.pqa", "sgi.wet_experiment")
} | {
    "bioprobench.rea_err": "bioprobench.err",
    PROTOCOL_QA: "bioprobench.pqa",
    "bioprobench.gen": "lexical",
    "bioprot": "bioplanner",
}

UNKNOWN = "unknown_form"


def form_of(record: Mapping[str, Any], task: str | None = None) -> tuple[str, str] | Fault:
    """Return the form of an unfolded record and the task that it names or that all records have, SCORE if none is."""
    named = task
    if named is None and isinstance(record.get("task"), str) and record["task"] in TASKS:
        named = record["task"]
    if named is not None and named not in TASKS:
        return Fault("unknown_task", f"the task {one_of(named, TASKS)}")
    if named is not None:
        forms = (FORM_OF_TASK.get(named, named), *(form for form, other in TASK_OF_FORM.items() if other == named))
        fitting = next((form for form in forms if not lacking(record, SHAPES[form])), "rows")
        return fitting, TASK_OF_FORM.get(named, named)
    known = next((form for form, groups in SHAPES.items() if not lacking(record, groups)), None)
    if known is None:
        return unknown_form(record)
    name, fault = task_at(record, "task") if known == "rows" else (TASK_OF_FORM.get(known, SCORE), None)
    return fault or (known, name)


def lacking(record: Mapping[str, Any], groups: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Return the groups without a field in the record."""
    return [group for group in groups if not any(name in record for name in group)]


def unknown_form(record: Mapping[str, Any]) -> Fault:
    """Return the fault of a record of no form, with what it lacks of the nearest ones."""
    shares = {form: len(lacking(record, groups)) / len(groups) for form, groups in SHAPES.items()}
    least = min(shares.values())
    if least == 1:
        names = ", ".join(map(repr, [*record][:MAX_LISTED])) or "there are none"
        return Fault(UNKNOWN, f"the fields are of no known form: {names}")
    needs = []
    for form in (form for form, share in shares.items() if share == least):
        needed = (" or ".join(map(repr, group)) for group in lacking(record, SHAPES[form]))
        needs.append(f"{form} needs {' and '.join(needed)}")
    return Fault(UNKNOWN, f"the fields are of no known form; of the nearest, {'; '.join(needs)}")


def forms_with_examples() -> Iterator[str]:
    """Yield a line about each form, for people whose records have none."""
    width = max(map(len, FORMS))
    yield "The forms of records, each with an example:"
    yield from (f"  {form:<{width}}  {example}" for form, example in EXAMPLES.items())
