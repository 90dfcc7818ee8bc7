"""Reads one record of any form as an `Example`, from which prompts, splits and statistics are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import Any, Literal

from ...kernels.warmup import warmup
from ...service.errors import InvalidReference
from ...service.explain.reading import ReadStep, Text, canons, sections_of, steps_in
from ...service.records.files.opening import SourceFile, open_records, split_named
from ...service.records.jobs.row_tasks import RowTasks
from ...service.records.rows.fields import REFERENCE_NAMES, Message, asking_of, has_text
from ...service.records.rows.forms import unfolded
from ...service.records.rows.rows import Fault, RowPlace, reference_faults, value_digest
from ...service.records.rows.shapes import PROTOCOL, PROTOCOL_QA, QUESTION_NAMES, QUESTION_ONLY, form_of
from ...service.rewards.batch import Batch
from ...service.rewards.registry import OPTION_TASKS, SCORE, reward_of
from ...service.scoring.reference_reader import parse_valid_references, references_as_column
from ...service.scoring.references import ReferenceTexts
from ...service.scoring.texts import strings_of
from ...service.settings import ScoreSettings
from ...service.tasks.evaluation import task_named
from ...service.tasks.scirecipe_records import (
    answer_of,
    level_of,
    library_in,
    library_of,
    type_named,
    without_instructions,
    without_tags,
)
from ...service.tasks.thoth import sections_in
from .structured import protocol_text

Stage = Literal["knowledge", "supervised", "grpo"]  # rows are texts, prompts with answers, or with references
Levels = Literal["steps", "actions"]


@dataclass(frozen=True)
class PrepareOptions:
    """Options for prompts and splits of records; the same options and records give the same bytes."""

    trainer: str = "trl"  # whose rows to write: one of `records.trainer_rows.TRAINERS`
    stage: Stage = "grpo"
    _: KW_ONLY
    seed: int = 0
    test_share: float = 0.1  # in the split `test`, 0 to below 1; without effect if files are held out
    distractors: int | None = None
    """1 to this number of actions are added to each library. None: 1 to 4 in test rows of level 2, as in the paper."""
    similarity: float = 0.8  # Jaccard similarity of words from which records are near-duplicates and share a group
    group_field: str | None = None  # name or dotted path of a field: records with equal values share a group, too
    task: str | None = None  # the task of all records; None: recognized for each record
    levels: Levels = "steps"  # SCORE's level is 2 from four of these on: steps, or distinct actions of the reference
    alternatives: bool = False  # True to make one row of records with equal prompts
    own_prompts: bool = False  # True to write the records' prompts as they are, in place of the prompts made here


DESCRIPTIONS = ("ai_generated_description", "description", "original description")
"""Fields with the description of a protocol, in the order in which they are tried; the original one is often short."""

PSEUDOCODE = ("edited_pseudocode", "generated_pseudocode")

ALL_SECTIONS, KEY = 4, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One record: what is asked, and what answers are compared with."""

    place: RowPlace
    id: str
    """The record's own `id`, else a digest of its content (`groups.with_ids`)."""
    dataset: str
    """Form of the record: `scirecipe`, `bioprobench.pqa` and so on (`records.shapes.FORMS`)."""
    task: str
    """The task that rewards answers: a name in `REWARD_TASKS`."""
    question: str
    """The question without instructions, and for SciRecipe without the sentence that names the library."""
    reference: Any
    """The reference that the task compares with: for SCORE key lines, or alternatives of these, else a record of the
    task."""
    record: Mapping[str, Any]
    """The record as it was read."""
    type: str | None = None
    """The type in SciRecipe (`planning`) or in a benchmark; in lower case."""
    level: str | None = None
    """Difficulty: "1" or "2" for SCORE, by the number of steps or actions; a benchmark's own, if it has one."""
    steps: tuple[ReadStep, ...] = ()
    """The steps of the reference, for the task `score`."""
    library: tuple[str, ...] | None = None
    """Actions that an answer may use; None if the record names none."""
    has_distractors: bool = False
    """True if the published library has distractors already (`action_new`)."""
    answer: str | None = None
    """The published answer, None if the record has none."""
    prompt: tuple[Message, ...] | None = None
    """The record's own prompt as chat messages, None if it has none."""
    text: str | None = None
    """The text of the protocol itself, for the stage `knowledge`; None if the record has none."""
    held_out: bool = False
    """True if its file, or its own field `split`, says that it is in the split `test`."""
    split: str | None = None
    """The split that its field `split` names, as names of files do; None if it names none."""
    others: tuple[str, ...] = ()
    """The ids of further records with its prompt, which have no rows of their own."""

    def replaced(self, **fields: Any) -> Example:
        return replace(self, **fields)


@contextmanager
def open_examples(source: SourceFile, options: PrepareOptions) -> Iterator[Iterator[Example | tuple[RowPlace, Fault]]]:
    """Open a file; yield an example of each record, or its place and the fault that prevents it.

    Raises DocumentError, here or while the records are read, if the file is malformed as a whole, and OSError.
    """
    with open_records(source, as_json=True) as records:
        yield (
            example_of(RowPlace(source.name, record.location), record.value, record.fault, options)
            for record in records.rows
        )


def example_of(
    place: RowPlace, value: Any, fault: Fault | None, options: PrepareOptions
) -> Example | tuple[RowPlace, Fault]:
    example = fault or read_example(value, place, options)
    return (place, example) if isinstance(example, Fault) else example


def read_example(value: Any, place: RowPlace, options: PrepareOptions) -> Example | Fault:
    """Return one record as an example, or the fault that prevents it; `value` may be anything that JSON can hold."""
    if not isinstance(value, dict):
        return Fault("not_an_object", "the row is not a JSON object")
    record = unfolded({name: part for name, part in value.items() if part is not None})  # columns have every field
    form = form_of(record, options.task)
    if isinstance(form, Fault):
        return form
    name, task = form
    blank = Example(
        place=place,
        id=id_of(record),
        dataset=name,
        task=task,
        question="",
        reference=None,
        record=value,
        split=split_named(record["split"]) if isinstance(record.get("split"), str) else None,
    )
    return (READERS.get(name) or ROW_READERS[task])(blank, record, options)


def read_text(blank: Example, record: Mapping[str, Any], options: PrepareOptions) -> Example | Fault:
    """Read the text of a protocol, which only the stage `knowledge` uses."""
    if fault := missing_text(record, "text"):
        return fault
    if options.stage != "knowledge":
        return Fault("no_question", "a text without a question is used only with --stage knowledge")
    return blank.replaced(text=record["text"].strip())


def read_structured(blank: Example, record: Mapping[str, Any], options: PrepareOptions) -> Example | Fault:
    """Read a structured protocol as a text, which only the stage `knowledge` uses."""
    if options.stage != "knowledge":
        return Fault("no_question", "a protocol without a question and a reference is used only with --stage knowledge")
    text = protocol_text(record)
    return text if isinstance(text, Fault) else blank.replaced(text=text)


def read_protocol(blank: Example, record: Mapping[str, Any], options: PrepareOptions) -> Example | Fault:
    """Read a record of SciRecipe in any of its shapes, or a question with steps or with a reference of SCORE."""
    record = without_tags(record)
    asking = asking_of(record, QUESTION_NAMES)
    question = without_instructions(asking.question) if asking else ""
    if asking is None or not question:
        return no_question()
    reference = reference_in(record, asking.answer)
    key_lines = reference if isinstance(reference, Fault) else key_lines_of(reference)
    if isinstance(key_lines, Fault):
        return key_lines
    text, steps = key_lines
    whole = isinstance(reference, str) and sections_in(reference) is not None
    library = library_of(record) or library_in(asking.question)
    kind = label(record.get("type"))
    return blank.replaced(
        dataset="scirecipe" if whole else blank.dataset,
        question=question,
        reference=text,
        type=None if kind is None else type_named(kind),
        level=str(level_of(len(steps) if options.levels == "steps" else number_of_actions(steps))),
        steps=steps,
        library=library or None,
        has_distractors=isinstance(record.get("action_new"), list),
        answer=str(reference).strip() if whole else answer_of(record),
        prompt=asking.messages if asking.has_system or asking.name not in QUESTION_ONLY else None,
        text=record["text"].strip() if has_text(record.get("text")) else None,
    )


def number_of_actions(steps: Sequence[ReadStep]) -> int:
    """Return the size of the action space: the number of distinct actions, compared by words."""
    return len(set(canons([step.action for step in steps])))


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


def key_lines_of(reference: Any) -> tuple[str, tuple[ReadStep, ...]] | Fault:
    """Return the key lines of a reference of SCORE, and their steps: of an answer, key lines, or an object with steps.

    What is wrong with an invalid one is said in the words of `assay check` and `assay score`.
    """
    warmup()
    read, issues = references_as_column([reference])
    if not issues:
        _, issues = parse_valid_references(read, ScoreSettings().max_steps)
    if issues:
        return reference_faults(issues)[0]
    content: bytes = strings_of(read.texts)[0].encode()
    whole, sections, _, _ = sections_of(Text(content), False)
    if whole == ALL_SECTIONS:
        content = content[slice(*sections[KEY])]
    text = content.strip().decode()
    return text, tuple(steps_in(text))


def read_row(blank: Example, record: Mapping[str, Any], _options: PrepareOptions) -> Example | Fault:
    """Read a prompt with a reference of another task: its `reference`, or the fields that the task's records have."""
    asking = asking_of(record, QUESTION_NAMES)
    if asking is None or not asking.question.strip():
        return no_question()
    task = task_named(blank.task)
    reference, fault = rows_with_tasks().reference_of(task, record, "reference")
    if reference is None:
        return fault or Fault("bad_reference", f"reference of {blank.task}: it is missing")
    left_out = (task.response, "conversations")  # a conversation has been read: its fields are in the reference
    fields = {name: reference[name] for name in task.record.model_fields if name in reference and name not in left_out}
    level = label(record.get("level"))
    return with_reference(
        blank,
        fields,
        question=asking.question.strip(),
        type=label(record.get("type")),
        level=level,
        prompt=asking.messages,
    )


@cache
def rows_with_tasks() -> RowTasks:
    return RowTasks(ScoreSettings(), field="task")


def with_reference(blank: Example, fields: Mapping[str, Any], **parts: Any) -> Example | Fault:
    """Return an example of another task with these fields of its records, checked as a request for rewards does."""
    try:
        (reference,) = reward_of(blank.task).read_references(Batch(references=ReferenceTexts([fields])))
    except InvalidReference as error:
        return reference_faults(error.issues, f" of {blank.task}: ")[0]
    return blank.replaced(reference=reference, **parts)


def no_question() -> Fault:
    return Fault("missing_field", f"no question: none of {', '.join(map(repr, QUESTION_NAMES))} has one")


def missing_text(record: Mapping[str, Any], *names: str) -> Fault | None:
    """Return the fault of the first of these fields that has no text."""
    wrong = next((name for name in names if not has_text(record.get(name))), None)
    return Fault("wrong_type", f"the field {wrong!r} is not a text, or is blank") if wrong else None


def read_pqa(blank: Example, record: Mapping[str, Any], _options: PrepareOptions) -> Example | Fault:
    """Read a question with choices: the reference is the right choice."""
    if fault := missing_text(record, "question"):
        return fault
    choices, answer = record["choices"], record["answer"]
    if not isinstance(choices, list) or not all(map(has_text, choices)):
        return Fault("wrong_type", "the field 'choices' is not a list of texts")
    if answer not in choices:
        return Fault("bad_reference", "the field 'answer' is not one of 'choices'")
    return asked(blank, record, "question", {"answer": answer})


def read_protocol_qa(blank: Example, record: Mapping[str, Any], _options: PrepareOptions) -> Example | Fault:
    """Read a question of LAB-Bench about a protocol as one of PQA: the right choice is `ideal`.

    The order of the choices is given by their digests with the id, or without one the question, as the key. The canary
    is in no part of the example.
    """
    if "distractors" not in record:
        return Fault("no_choices", "no field 'distractors': the answer is open, as in LABBench2, and PQA has choices")
    if fault := missing_text(record, "question", "ideal", "protocol"):
        return fault
    question, protocol, ideal, distractors = (record[name] for name in ("question", "protocol", "ideal", "distractors"))
    if not isinstance(distractors, list) or not distractors or not all(map(has_text, distractors)):
        return Fault("wrong_type", "the field 'distractors' is not a list of texts")
    choices = [ideal, *distractors]
    if len(set(choices)) < len(choices):
        return Fault("bad_reference", "a text is twice in 'ideal' and 'distractors'")
    canary = record.get("canary")
    if has_text(canary) and any(canary in text for text in (question, protocol, *choices)):
        return Fault("canary", "the text of its 'canary' is in another field, too")
    key = value_digest(blank.id or question)
    choices.sort(key=lambda text: blake2b(text.encode("utf-8", "replace"), key=key).digest())
    return with_reference(
        blank,
        {"answer": ideal},
        question=f"{question.strip()}\n\nProtocol:\n{protocol.strip()}",
        type=label(record.get("subtask")),
        record={name: part for name, part in {**blank.record, "choices": choices}.items() if name != "canary"},
    )


def read_ord(blank: Example, record: Mapping[str, Any], _options: PrepareOptions) -> Example | Fault:
    """Read shuffled steps: the reference is the steps as shown and in the right order."""
    if fault := missing_text(record, "question"):
        return fault
    shown = ("wrong_steps", "correct_steps", "gold_indices_1based")
    return asked(blank, record, "question", {name: record[name] for name in shown if name in record})


def read_err(blank: Example, record: Mapping[str, Any], _options: PrepareOptions) -> Example | Fault:
    """Read a step that is right or erroneous: the reference is which of the two, and the question the step shown."""
    name = step_shown(record)
    example = asked(blank, record, name, {"is_correct": record["is_correct"]})
    if not isinstance(example, Fault) and (fault := missing_text(record, name)):
        return fault
    if not isinstance(example, Fault) and not isinstance(record.get("context", {}), dict):
        return Fault("wrong_type", "the field 'context' is not an object")
    return example


def asked(blank: Example, record: Mapping[str, Any], name: str, reference: Mapping[str, Any]) -> Example | Fault:
    """Return a record of a benchmark whose question is in the field of this name."""
    return with_reference(blank, reference, question=str(record.get(name)).strip(), type=label(record.get("type")))


def step_shown(record: Mapping[str, Any]) -> str:
    """Return the field of a record of ERR with the step that the benchmark asks about."""
    return "corrected_text" if record["is_correct"] is True else "corrupted_text"


def read_gen(blank: Example, record: Mapping[str, Any], _options: PrepareOptions) -> Example | Fault:
    """Read a protocol to be generated: the reference is its steps, one per line; the level is the record's `type`."""
    errors = task_named("bioprobench.gen").validation_errors({"output": record["output"], "generated_response": ""})
    if fault := missing_text(record, "input"):
        return fault
    if errors:
        return Fault("wrong_type", "; ".join(f"{path}: {detail}" for path, _, detail in errors))
    output = record["output"]
    text = (output if isinstance(output, str) else "\n".join(output)).strip()
    if not text:
        return Fault("bad_reference", "the field 'output' has no step")
    return with_reference(
        blank,
        {"reference": text},
        question=record["input"].strip(),
        level=label(record.get("type")),
        answer=text,
        prompt=gen_prompt(record),
    )


def gen_prompt(record: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the prompt of a record of GEN: its system message, and its instruction before what is asked."""
    system = record.get("system_prompt")
    first: tuple[Message, ...] = ({"role": "system", "content": system},) if has_text(system) else ()
    asked = "\n\n".join(record[name] for name in ("instruction", "input") if has_text(record.get(name)))
    return (*first, {"role": "user", "content": asked})


def read_bioprot(blank: Example, record: Mapping[str, Any], options: PrepareOptions) -> Example | Fault:
    """Read a protocol with its pseudocode, the edited one if there is one: the reference is the program."""
    if fault := missing_text(record, "title", "steps"):
        return fault
    description = next((record[name] for name in DESCRIPTIONS if has_text(record.get(name))), "")
    question = f"{record['title'].strip()}\n\n{description.strip()}".strip()
    text = f"{question}\n\n{record['steps'].strip()}"
    code = next((record[name] for name in PSEUDOCODE if has_text(record.get(name))), None)
    example = blank.replaced(question=question, answer=code, text=text)
    with_code = with_reference(example, {"ground_truth": code})
    return example if isinstance(with_code, Fault) and options.stage == "knowledge" else with_code


def read_wet_experiment(blank: Example, record: Mapping[str, Any], _options: PrepareOptions) -> Example | Fault:
    """Read a question of SGI-WetExperiment with the actions to choose from: the reference is the right protocol."""
    if fault := missing_text(record, "question", "action_pool"):
        return fault
    named = blank.replaced(id=blank.id or id_of({"id": record.get("idx")}))
    return asked(named, record, "question", {"answer": record["answer"]})


def label(value: Any) -> str | None:
    """Return a type or a level as a text in lower case, None if it is neither text nor a number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip().lower() or None


def id_of(record: Mapping[str, Any]) -> str:
    """Return the id of a record; an empty text if it has none."""
    value = record.get("id")
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip() else ""


Reader = Callable[[Example, Mapping[str, Any], PrepareOptions], Example | Fault]

READERS: Mapping[str, Reader] = {
    "bioprobench.err": read_err,
    "bioprobench.rea_err": read_err,
    "bioprobench.ord": read_ord,
    "bioprobench.pqa": read_pqa,
    PROTOCOL_QA: read_protocol_qa,
    "bioprobench.gen": read_gen,
    "bioprot": read_bioprot,
    "sgi.wet_experiment": read_wet_experiment,
    "text": read_text,
    PROTOCOL: read_structured,
}
"""Readers of records that have the fields of a form. They take an example without question and reference, and an
unfolded record without its fields that are null."""

ROW_READERS: Mapping[str, Reader] = {SCORE: read_protocol} | dict.fromkeys(OPTION_TASKS, read_row)
"""Readers of the other records, by task."""
