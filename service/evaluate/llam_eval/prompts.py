"""What the judge is asked: a prompt for each criterion, in the form of the paper or in a shorter one of ours."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["CRITERIA", "SOURCES", "Criterion", "prompt_of"]


class Criterion(NamedTuple):
    """One of ProtoMed-LLM's six criteria, in our words."""

    meaning: str
    steps: tuple[str, ...]
    """How to rate by it, before the last step, which gives the score."""
    short: str
    """Its reading in our prompt."""


CRITERIA = {
    "Coherence": Criterion(
        "how well the protocol holds together: it is organized, and every step builds on those before it instead of "
        "being one more entry in a list",
        (
            "Read the source and note its main stages and their order.",
            "Read the written protocol and check whether it goes through these stages in a clear and logical order.",
        ),
        "the steps follow from one another and the whole reads as one procedure",
    ),
    "Consistency": Criterion(
        "factual agreement with the source: the protocol states only what the source supports, and anything invented "
        "or contradicted lowers the score",
        (
            "Read the source and note its facts: actions, materials, amounts, times and temperatures.",
            "Compare each statement of the written protocol with them, and note what they do not support.",
        ),
        "every statement agrees with the true protocol; nothing contradicts it",
    ),
    "Fluency": Criterion(
        "quality of the writing: grammar, spelling, punctuation, choice of words and structure of sentences or calls",
        (
            "Read the written protocol for its language only.",
            "Note errors and awkward passages, and how much they hinder a reader.",
        ),
        "the language is grammatical, clear, and that of laboratory work",
    ),
    "Relevance": Criterion(
        "selection of the important information of the source: the protocol has what matters in it, and redundant or "
        "unrelated information lowers the score",
        (
            "Read the source and note what is important in it.",
            "Check how much of that the written protocol has, and how much redundant or unrelated content it adds.",
        ),
        "the steps serve the protocol's purpose, without anything beside the point",
    ),
    "Precision": Criterion(
        "exact terminology: actions, reagents, equipment, quantities and units are called by the exact terms of the "
        "field, and vague or wrong terms lower the score",
        (
            "Read the source and note the technical terms that it uses.",
            "Check whether the written protocol uses exact terms in their place, and note vague or wrong ones.",
        ),
        "amounts, times, temperatures and other parameters are given and right",
    ),
    "Coverage": Criterion(
        "completeness: how much of the source, its steps, materials and parameters, the protocol covers",
        (
            "Read the source and list its steps with their materials and parameters.",
            "Look for each of them in the written protocol, and note what is missing.",
        ),
        "every step and material of the true protocol is there",
    ),
}
"""ProtoMed-LLM's six criteria."""

SOURCES = {"reference": "a reference protocol", "protocol": "the original protocol"}
"""What the written protocol is compared with, by the field of the record that holds it."""

PAPER = """\
A model has written a laboratory protocol, as pseudocode or as text. Its source is {source}. Rate the written protocol \
by one criterion.

Read these instructions carefully before you begin, and return to them while you rate.

Evaluation criterion:

{criterion} (1-5){meaning}

Evaluation steps:

{steps}

Source:

{reference}

Written protocol:

{response}

Evaluation form (the score only):

- {criterion}:"""

ASSAY = """\
Below are the true protocol of a laboratory procedure and one that a model has written. Rate the written protocol.

Criterion: {criterion}{meaning}

Give one whole number from 1 (worst) to 5 (best) by filling in the form at the end, and nothing else.

True protocol:
{reference}

Written protocol:
{response}

Form (the number only):
- {criterion}:"""

FIRST_STEPS = ("Read the source.", "Read the written protocol and compare it with the source by this criterion.")
"""For a criterion that is not among the six."""


def prompt_of(
    criterion: str,
    reference: str,
    response: str,
    prompt: Literal["paper", "assay"] = "paper",
    baseline: Literal["reference", "protocol"] = "reference",
) -> str:
    """Return the question to the judge about one criterion; a criterion that is not among the six has no definition."""
    known = CRITERIA.get(criterion)
    if prompt == "assay":
        meaning = f": {known.short}." if known else ""
        return ASSAY.format(criterion=criterion, meaning=meaning, reference=reference, response=response)
    last = f"Give a score for {criterion} from 1 (lowest) to 5 (highest)."
    return PAPER.format(
        source=SOURCES[baseline],
        criterion=criterion,
        meaning=f": {known.meaning}." if known else "",
        steps="\n".join(f"{k}. {step}" for k, step in enumerate([*(known.steps if known else FIRST_STEPS), last], 1)),
        reference=reference,
        response=response,
    )
