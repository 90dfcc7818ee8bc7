"""An example of every task, as they are read from records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.research.prepare.examples import Example
from assay.service.explain.reading import ReadStep
from assay.service.records.rows.rows import Location, RowPlace

PLACE = RowPlace("records.jsonl", Location("line", 1))

RINSE = ReadStep("rinse", ("beaker", "ethanol"), ("70%", "10 s"))
DRY = ReadStep("dry", ("beaker",), ("60 °c", "1 h"))


def example(dataset: str, task: str, question: str, reference: Any, record: Any = None, **fields: Any) -> Example:
    named = {"dataset": dataset, "task": task, "question": question, "reference": reference, "record": record or {}}
    return Example(place=PLACE, id="r1", **named, **fields)


def protocol(
    steps: Sequence[ReadStep] = (RINSE, DRY), question: str = "How is a beaker cleaned?", **fields: Any
) -> Example:
    """An example of SCORE."""
    reference = {"steps": [step._asdict() for step in steps]}
    return example("scirecipe", "score", question, reference, steps=tuple(steps), **fields)


def choice(
    answer: Any = "5 ml", choices: Sequence[Any] = ("2 ml", "5 ml"), question: str = "Add ____ of buffer."
) -> Example:
    return example("bioprobench.pqa", "bioprobench.pqa", question, {"answer": answer}, {"choices": list(choices)})


def order(
    shown: Sequence[str] = ("dry", "rinse", "store"), right: Sequence[str] = ("rinse", "dry", "store")
) -> Example:
    reference = {"wrong_steps": list(shown), "correct_steps": list(right)}
    return example("bioprobench.ord", "bioprobench.ord", "Sort the steps of 'Cleaning'.", reference)


CONTEXT = {"purpose": "Clean glass", "prior_step": "Rinse the beaker", "next_step": None}


def verdict(is_correct: bool, dataset: str = "bioprobench.err", context: Any = CONTEXT) -> Example:
    record = {
        "corrupted_text": None if is_correct else "Dry the beaker at 600 °C.",
        "corrected_text": "Dry the beaker at 60 °C.",
        "context": context,
        "type": "correct" if is_correct else "parameter",
        "error_description": None if is_correct else "Glass softens.",
    }
    question = record["corrupted_text"] or record["corrected_text"]
    return example(dataset, "bioprobench.err", question, {"is_correct": is_correct}, record)


def generation(reference: str = "1. Rinse the beaker.\n2. Dry it for an hour.") -> Example:
    record = {"instruction": "Give a flat list.", "system_prompt": "You are an expert."}
    return example("bioprobench.gen", "lexical", "How is a beaker cleaned?", reference, record)


PROGRAM = '''\
def rinse(vessel, solvent="water", *, seconds=10):
    """Rinse."""
    pass

def dry(vessel): pass

# The protocol
for vessel in ["a", "b"]:
    rinse(vessel, solvent="ethanol")
    dry(vessel)
store(vessel)
'''


def pseudocode(program: str = PROGRAM) -> Example:
    question = "Cleaning of beakers\n\nRinses and dries."
    return example("bioprot", "bioplanner", question, {"ground_truth": program}, {})


def wet_experiment() -> Example:
    record = {"action_pool": "<Rinse>(vessel)"}
    return example(
        "sgi.wet_experiment", "sgi.wet_experiment", "Rinse.", {"answer": "a = <Rinse>(\n    vessel=b\n)"}, record
    )


ALL = [
    protocol(),
    protocol([DRY], type="planning", library=("dry",)),
    choice(),
    order(),
    verdict(True),
    verdict(False),
    verdict(False, "bioprobench.rea_err"),
    generation(),
    pseudocode(),
    wet_experiment(),
]
