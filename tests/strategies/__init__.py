"""Hypothesis strategies for comparing implementations of the reward with the textbook twin.

They compose: texts → JSON and lines → answers → rollouts and batches. More than half of the responses pass both gates.
"""

from .answers import answers, asides, damaged_answers, key_lines, orc_lines, protocols, steps
from .batches import (
    alternatives_of,
    batches,
    doubtful_references,
    references,
    responses,
    responses_to,
    rollouts,
    settings,
)
from .effort import examples
from .json_text import broken_objects, json_strings, json_values, step_objects
from .texts import amounts, ascii_texts, characters, cognates, elements, quantities, sequences, surrogate_texts, texts

__all__ = [
    "alternatives_of",
    "amounts",
    "answers",
    "ascii_texts",
    "asides",
    "batches",
    "broken_objects",
    "characters",
    "cognates",
    "damaged_answers",
    "doubtful_references",
    "elements",
    "examples",
    "json_strings",
    "json_values",
    "key_lines",
    "orc_lines",
    "protocols",
    "quantities",
    "references",
    "responses",
    "responses_to",
    "rollouts",
    "sequences",
    "settings",
    "step_objects",
    "steps",
    "surrogate_texts",
    "texts",
]
