"""Reads records of BioProBench (arXiv 2505.07889) and of BioProt (BioPlanner, arXiv 2310.10632), as published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..evaluate.evaluation import task_named
from ..files.field_names import has_text
from ..files.rows.rows import Fault
from .example import Example, Message
from .options import Options
from .references import task_reference

__all__ = ["BENCHMARKS", "label", "step_shown"]


Reader = Callable[[Example, Mapping[str, Any], Options], Example | Fault]
"""Takes an example without question and reference, and a record without its fields that are null."""

DESCRIPTIONS = ("ai_generated_description", "description", "original description")
"""Fields with the description of a protocol, in the order in which they are tried; the original one is often short."""

PSEUDOCODE = ("edited_pseudocode", "generated_pseudocode")


def missing_text(record: Mapping[str, Any], *names: str) -> Fault | None:
    """Return the fault of the first of these fields that has no text."""
    wrong = next((name for name in names if not has_text(record.get(name))), None)
    return Fault("wrong_type", f"the field {wrong!r} is not a text, or is blank") if wrong else None


def read_pqa(blank: Example, record: Mapping[str, Any], options: Options) -> Example | Fault:
    """Read a question with choices: the reference is the right choice."""
    if fault := missing_text(record, "question"):
        return fault
    choices, answer = record["choices"], record["answer"]
    if not isinstance(choices, list) or not all(map(has_text, choices)):
        return Fault("wrong_type", "the field 'choices' is not a list of texts")
    if answer not in choices:
        return Fault("bad_reference", "the field 'answer' is not one of 'choices'")
    reference = task_reference("bioprobench.pqa", {"answer": answer})
    if isinstance(reference, Fault):
        return reference
    question = record["question"].strip()
    return blank._replace(
        task="bioprobench.pqa", question=question, reference=reference, type=label(record.get("type"))
    )


def read_ord(blank: Example, record: Mapping[str, Any], options: Options) -> Example | Fault:
    """Read shuffled steps: the reference is the steps as shown and in the right order."""
    if fault := missing_text(record, "question"):
        return fault
    shown = ("wrong_steps", "correct_steps", "gold_indices_1based")
    reference = task_reference("bioprobench.ord", {name: record[name] for name in shown if name in record})
    if isinstance(reference, Fault):
        return reference
    question = record["question"].strip()
    return blank._replace(
        task="bioprobench.ord", question=question, reference=reference, type=label(record.get("type"))
    )


def read_err(blank: Example, record: Mapping[str, Any], options: Options) -> Example | Fault:
    """Read a step that is right or erroneous: the reference is which of the two, and the question the step shown."""
    reference = task_reference("bioprobench.err", {"is_correct": record["is_correct"]})
    if isinstance(reference, Fault):
        return reference
    name = step_shown(record)
    context = record.get("context", {})
    if fault := missing_text(record, name):
        return fault
    if not isinstance(context, dict):
        return Fault("wrong_type", "the field 'context' is not an object")
    question = record[name].strip()
    return blank._replace(
        task="bioprobench.err", question=question, reference=reference, type=label(record.get("type"))
    )


def step_shown(record: Mapping[str, Any]) -> str:
    """Return the field of a record of ERR with the step that the benchmark asks about."""
    return "corrected_text" if record["is_correct"] is True else "corrupted_text"


def read_gen(blank: Example, record: Mapping[str, Any], options: Options) -> Example | Fault:
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
    reference = task_reference("lexical", {"reference": text})
    if isinstance(reference, Fault):
        return reference
    return blank._replace(
        task="lexical",
        question=record["input"].strip(),
        reference=reference,
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


def read_bioprot(blank: Example, record: Mapping[str, Any], options: Options) -> Example | Fault:
    """Read a protocol with its pseudocode, the edited one if there is one: the reference is the program."""
    if fault := missing_text(record, "title", "steps"):
        return fault
    description = next((record[name] for name in DESCRIPTIONS if has_text(record.get(name))), "")
    question = f"{record['title'].strip()}\n\n{description.strip()}".strip()
    text = f"{question}\n\n{record['steps'].strip()}"
    code = next((record[name] for name in PSEUDOCODE if has_text(record.get(name))), None)
    reference = task_reference("bioplanner", {"ground_truth": code})
    if isinstance(reference, Fault) and options.stage != "knowledge":
        return reference
    known = None if isinstance(reference, Fault) else reference
    return blank._replace(task="bioplanner", question=question, reference=known, answer=code, text=text)


def label(value: Any) -> str | None:
    """Return a type or a level as a text in lower case, None if it is neither text nor a number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip().lower() or None


BENCHMARKS: dict[str, Reader] = {
    "bioprobench.err": read_err,
    "bioprobench.rea_err": read_err,
    "bioprobench.ord": read_ord,
    "bioprobench.pqa": read_pqa,
    "bioprobench.gen": read_gen,
    "bioprot": read_bioprot,
}
"""Readers of records that have the fields of a form."""
