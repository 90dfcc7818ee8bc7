"""The judge's prompt for each criterion, with the parts of the paper's prompt or in a shorter form of ours.

The paper (appendix A.2) prints its prompt for one criterion, Coherence. `prompt = paper` has its parts with their
meaning; the sentences are ours. The other five criteria have the same parts, made from their definitions.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

RATINGS = ("Poor", "Fair", "Good", "Very good", "Excellent")


class Criterion(NamedTuple):
    """One of ProtoMed-LLM's six criteria: aspects to compare and to consider, and a description of each score."""

    meaning: str
    compared: str
    questions: tuple[str, ...]
    anchors: tuple[str, str, str, str, str]
    short: str


CRITERIA = {
    "Coherence": Criterion(
        "the quality of the protocol as a whole, over all of its lines: it has to describe the source precisely, and a "
        "rough outline of it is not enough",
        "that every decisive step, quantity and condition of the source appears where it belongs",
        (
            "is the protocol easy to follow?",
            "does it have all steps and details of the source?",
            "are its instructions exact, and open to one reading only?",
            "does any part of it contradict another?",
        ),
        (
            "fragmentary or confusing, without most of the source's details",
            "partly there, but with large gaps and often unclear",
            "most details are there, with small contradictions or unclear passages",
            "nearly complete and clear, with very few blemishes",
            "complete, clear and exact: it holds together as the source does",
        ),
        "the steps follow from one another and the whole reads as one procedure",
    ),
    "Consistency": Criterion(
        "factual agreement with the source: the protocol states only what follows from the source, and anything that "
        "is invented lowers the score",
        "which of the protocol's statements the source supports, and which it does not",
        (
            "does each action, material and value follow from the source?",
            "is anything invented?",
            "does anything contradict the source?",
        ),
        (
            "most statements are invented or contradict the source",
            "many statements lack support in the source",
            "mostly supported, with some statements that are not",
            "supported, except for a minor statement or two",
            "every statement follows from the source",
        ),
        "every statement agrees with the true protocol; nothing contradicts it",
    ),
    "Fluency": Criterion(
        "the quality of the language: grammar, spelling, punctuation, choice of words and structure",
        "how both are written, whatever they say",
        (
            "are grammar, spelling and punctuation right?",
            "are the words well chosen?",
            "are sentences or calls well formed, and in an even style?",
        ),
        (
            "errors make it hard to understand",
            "many errors, and awkward in most places",
            "readable, with several errors or awkward passages",
            "well written, with few slips",
            "without errors, and pleasant to read",
        ),
        "the language is grammatical, clear, and that of laboratory work",
    ),
    "Relevance": Criterion(
        "the selection of the important information of the source: the protocol should have only what is important, "
        "and redundant or excess information lowers the score",
        "what matters in the source, and whether the protocol has that and nothing else",
        (
            "does it have what is important in the source?",
            "does it repeat itself?",
            "does it have anything that the source does without?",
        ),
        (
            "little of what matters, or mostly unrelated content",
            "some of what matters, among much that does not",
            "most of what matters, with some redundant or unrelated content",
            "what matters, with very little excess",
            "exactly what matters, and nothing else",
        ),
        "the steps serve the protocol's purpose, without anything beside the point",
    ),
    "Precision": Criterion(
        "exactness of expressions and terminology: the protocol uses the specific and fitting terms for the operations "
        "and the logic that are meant, and vague or ambiguous ones lower the score",
        "the terms by which both name the same operations, materials and conditions",
        (
            "is each operation called by its specific name?",
            "are materials, equipment and quantities named exactly?",
            "is any expression vague or ambiguous?",
        ),
        (
            "mostly vague or wrong terms",
            "many terms are vague or do not fit",
            "mostly fitting terms, some of them vague",
            "exact terms, except for a minor one or two",
            "every term is specific and says exactly what is meant",
        ),
        "amounts, times, temperatures and other parameters are given and right",
    ),
    "Coverage": Criterion(
        "completeness: the protocol has all necessary steps, operations and details of the source, and leaves out "
        "nothing that is decisive",
        "each step of the source with its operations and details, one after the other",
        (
            "is each necessary step there?",
            "are the operations of each step there?",
            "are the details of each step there?",
        ),
        (
            "most of the source is missing",
            "large parts of the source are missing",
            "the main steps are there, but several details are missing",
            "nearly everything is there, except for minor details",
            "everything in the source is there",
        ),
        "every step and material of the true protocol is there",
    ),
}

ANY = Criterion(
    "",
    "what this criterion is about",
    ("how well does the protocol meet the criterion?",),
    ("not at all", "in few places", "in part", "nearly everywhere", "everywhere"),
    "",
)
"""Replaces a criterion that is not among the six."""

SOURCES = {"reference": "a reference protocol", "protocol": "the original protocol"}

PAPER = """\
You are shown a source, which is {source} and counts as the truth, and a protocol that a model has written for the \
same procedure, as pseudocode or as text.

Rate the written protocol by one criterion. Read these instructions to the end before you begin, make sure that you \
understand them, and come back to them while you rate.

Evaluation criterion:

{criterion} (1-5){meaning}

Evaluation steps:

1. Read the source carefully, until its logic, its sequence and its details are clear to you.
2. Read the written protocol thoroughly, with an eye for its details, its structure and its clarity.
3. Compare the two part by part: {compared}.
4. Judge {criterion}. Ask yourself: {questions}
5. Choose a score for {criterion} from 1 to 5:
{anchors}

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


def prompt_of(
    criterion: str,
    reference: str,
    response: str,
    prompt: Literal["paper", "assay"] = "paper",
    baseline: Literal["reference", "protocol"] = "reference",
) -> str:
    chosen = CRITERIA.get(criterion, ANY)
    if prompt == "assay":
        meaning = f": {chosen.short}." if chosen.short else ""
        return ASSAY.format(criterion=criterion, meaning=meaning, reference=reference, response=response)
    ratings = enumerate(zip(RATINGS, chosen.anchors, strict=True), start=1)
    return PAPER.format(
        source=SOURCES[baseline],
        criterion=criterion,
        meaning=f": {chosen.meaning}." if chosen.meaning else "",
        compared=chosen.compared,
        questions=" ".join(question[0].upper() + question[1:] for question in chosen.questions),
        anchors="\n".join(f"   {score} ({rating}): {anchor}." for score, (rating, anchor) in ratings),
        reference=reference,
        response=response,
    )
