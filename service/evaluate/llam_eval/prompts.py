"""Prompts for the judge, each about one criterion."""

from __future__ import annotations

__all__ = ["CRITERIA", "prompt_of"]

CRITERIA = {
    "Coherence": "the steps follow from one another and the whole reads as one procedure",
    "Consistency": "every statement agrees with the true protocol; nothing contradicts it",
    "Fluency": "the language is grammatical, clear, and that of laboratory work",
    "Relevance": "the steps serve the protocol's purpose, without anything beside the point",
    "Precision": "amounts, times, temperatures and other parameters are given and right",
    "Coverage": "every step and material of the true protocol is there",
}
"""ProtoMed-LLM's six criteria, paraphrased."""

FORM = """\
Below are the true protocol of a laboratory procedure and one that a model has written. Rate the written protocol.

Criterion: {criterion}{meaning}

Give one whole number from 1 (worst) to 5 (best) by filling in the form at the end, and nothing else.

True protocol:
{reference}

Written protocol:
{response}

Form (the number only):
- {criterion}:"""


def prompt_of(criterion: str, reference: str, response: str) -> str:
    meaning = CRITERIA.get(criterion)
    return FORM.format(
        criterion=criterion, meaning=f": {meaning}." if meaning else "", reference=reference, response=response
    )
