"""Reads one record of a data set, whose form is recognized by its fields, as an `Example`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import one_of
from ..evaluate.scirecipe_records import (
    answer_of,
    level_of,
    library_in,
    library_of,
    type_named,
    without_instructions,
    without_tags,
)
from ..evaluate.thoth import sections_in
from ..files.field_names import CONVERSATION_NAMES, PROMPT_NAMES, REFERENCE_NAMES, asking_of, has_text
from ..files.row_tasks import task_at
from ..files.rows.rows import Fault, Place
from ..rewards.registry import REWARD_TASKS, SCORE
from .benchmarks import BENCHMARKS, label
from .example import Example
from .options import Options
from .references import key_lines_of, row_reference

__all__ = ["FORMS", "TASKS", "read_example", "split_named"]

QUESTION_NAMES = (*PROMPT_NAMES, "goal", "title")
"""Fields that may hold the question of a protocol, in the order in which they are tried."""

QUESTION_ONLY = ("question", "exp_goal", "goal", "title")
"""Those that are a question, but not a prompt unless the record has a system message."""

ERR_FIELDS = (("is_correct",), ("corrupted_text", "corrected_text"))
SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
    "bioprobench.err": ERR_FIELDS,
    "bioprobench.rea_err": ERR_FIELDS,
    "bioprobench.ord": (("question",), ("wrong_steps",), ("correct_steps",)),
    "bioprobench.pqa": (("question",), ("choices",), ("answer",)),
    "bioprobench.gen": (("system_prompt",), ("input",), ("output",)),
    "bioprot": (("title",), ("steps",), ("edited_pseudocode", "generated_pseudocode")),
    "scirecipe": (QUESTION_NAMES, ("key",)),
    "rows": (QUESTION_NAMES, (*REFERENCE_NAMES, "steps", "response", *CONVERSATION_NAMES)),
    "text": (("text",),),
}
"""The fields that a record of each form has: of each group at least one. The first form that fits is taken."""

FORMS = tuple(SHAPES)
"""Forms of records: SciRecipe's, which is also that of answers with its four sections; those of the benchmarks, of
which REA-ERR has to be named as the task; steps or rows of one's own; and texts of protocols, which only the stage
`knowledge` uses."""

TASKS = (*REWARD_TASKS, "bioprobench.rea_err", "bioprobench.gen")
"""What `Options.task` and the field `task` of a record may name."""

FORM_OF_TASK = {SCORE: "scirecipe", "bioplanner": "bioprot", "lexical": "bioprobench.gen"}
TASK_OF_FORM = {"bioprobench.rea_err": "bioprobench.err", "bioprobench.gen": "lexical"}
"""The forms of data sets whose task has another name."""

SPLIT = re.compile(r"(train|test|validation|valid|val|dev|eval)([-_.]\d+-of-\d+)?", re.IGNORECASE)
"""Names of folders and files that name a split, perhaps of a part of one, as on the Hugging Face hub."""


def read_example(value: Any, place: Place, options: Options) -> Example | Fault:
    """Return one record as an example, or the fault that prevents it; `value` may be anything that JSON can hold."""
    if not isinstance(value, dict):
        return Fault("not_an_object", "the row is not a JSON object")
    record = {name: part for name, part in value.items() if part is not None}  # columns have every field
    form = form_of(record, options)
    if isinstance(form, Fault):
        return form
    name, task = form
    blank = Example(place, id_of(record), name, task, "", None, value)
    if name == "text":
        return read_text(blank, record, options)
    if name in BENCHMARKS:
        return BENCHMARKS[name](blank, record, options)
    return read_protocol(blank, record) if task == SCORE else read_row(blank, record)


def form_of(record: Mapping[str, Any], options: Options) -> tuple[str, str] | Fault:
    """Return the form of a record and the task that it names or that all records have, SCORE if none is named."""
    named, task = options.task, SCORE
    if named is None and isinstance(record.get("task"), str) and record["task"] in TASKS:
        named = record["task"]
    if named is not None and named not in TASKS:
        return Fault("unknown_task", f"the task {one_of(named, TASKS)}")
    if named is not None:
        form = FORM_OF_TASK.get(named, named)
        return (form if not lacking(record, SHAPES[form]) else "rows"), TASK_OF_FORM.get(named, named)
    fitting = next((form for form, groups in SHAPES.items() if not lacking(record, groups)), None)
    if fitting is None:
        return unknown_form(record)
    if fitting == "rows":
        task, fault = task_at(record, "task")
        if fault is not None:
            return fault
    return fitting, task


def lacking(record: Mapping[str, Any], groups: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Return the groups of which a record has no field."""
    return [group for group in groups if not any(name in record for name in group)]


def unknown_form(record: Mapping[str, Any]) -> Fault:
    """Return the fault of a record of no form, with what it lacks of the nearest ones."""
    shares = {form: len(lacking(record, groups)) / len(groups) for form, groups in SHAPES.items()}
    least = min(shares.values())
    if least == 1:
        return Fault("unknown_form", f"the fields are of no known form; the forms are {', '.join(FORMS)}")
    needs = []
    for form in (form for form, share in shares.items() if share == least):
        needed = (" or ".join(map(repr, group)) for group in lacking(record, SHAPES[form]))
        needs.append(f"{form} needs {' and '.join(needed)}")
    return Fault("unknown_form", f"the fields are of no known form; of the nearest, {'; '.join(needs)}")


def read_text(blank: Example, record: Mapping[str, Any], options: Options) -> Example | Fault:
    """Read the text of a protocol, which only the stage `knowledge` uses."""
    text = record["text"]
    if not has_text(text):
        return Fault("wrong_type", "the field 'text' is not a text, or is blank")
    if options.stage != "knowledge":
        return Fault("no_question", "a text without a question is used only with --stage knowledge")
    return blank._replace(text=text.strip())


def read_protocol(blank: Example, record: Mapping[str, Any]) -> Example | Fault:
    """Read a record of SciRecipe in any of its shapes, or a question with steps or with a reference of SCORE."""
    record = without_tags(record)
    asking = asking_of(record, QUESTION_NAMES)
    question = without_instructions(asking.question) if asking else ""
    if asking is None or not question:
        return no_question()
    reference = reference_in(record, asking.answer)
    if isinstance(reference, Fault):
        return reference
    found = key_lines_of(reference)
    if isinstance(found, Fault):
        return found
    text, steps = found
    whole = isinstance(reference, str) and sections_in(reference) is not None
    library = library_of(record) or library_in(asking.question)
    kind = label(record.get("type"))
    return blank._replace(
        dataset="scirecipe" if whole else blank.dataset,
        question=question,
        reference=text,
        type=None if kind is None else type_named(kind),
        level=str(level_of(len(steps))),
        steps=steps,
        library=library or None,
        has_distractors=isinstance(record.get("action_new"), list),
        answer=str(reference).strip() if whole else answer_of(record),
        prompt=asking.messages if asking.has_system or asking.name not in QUESTION_ONLY else None,
        text=record["text"].strip() if has_text(record.get("text")) else None,
    )


def reference_in(record: Mapping[str, Any], answer: str | None) -> Any:
    """Return the reference of a record, which may be the published answer; a Fault if it has none."""
    name = next((name for name in REFERENCE_NAMES if name in record), None)
    if name is not None:
        return record[name]
    if "steps" in record:
        return {"steps": record["steps"]}
    published = record.get("response", answer)
    if isinstance(published, str) and sections_in(published) is not None:
        return published
    return Fault(
        "missing_field", "no field 'reference', 'key' or 'steps', and no answer with the four sections instead"
    )


def read_row(blank: Example, record: Mapping[str, Any]) -> Example | Fault:
    """Read a prompt with a reference of a task other than SCORE."""
    asking = asking_of(record, QUESTION_NAMES)
    if asking is None or not asking.question.strip():
        return no_question()
    reference = row_reference(blank.task, record)
    if isinstance(reference, Fault):
        return reference
    return blank._replace(
        question=asking.question.strip(),
        reference=reference,
        type=label(record.get("type")),
        level=label(record.get("level")),
        prompt=asking.messages,
    )


def no_question() -> Fault:
    return Fault("missing_field", f"no question: none of {', '.join(map(repr, QUESTION_NAMES))} has one")


def id_of(record: Mapping[str, Any]) -> str:
    """Return the id of a record; an empty text if it has none."""
    value = record.get("id")
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip() else ""


def split_named(name: str) -> str | None:
    """Return the split that the name of a folder or of a file without its extension says, None if it says none."""
    found = SPLIT.fullmatch(name)
    return found[1].lower() if found else None
