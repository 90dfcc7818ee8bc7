"""Generated records for every evaluation, and the same metrics in plain Python."""

from __future__ import annotations

import ast
import math
import random
import re
import warnings
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from assay.service.tasks.text.embedders import hashed_words
from assay.service.tasks.thoth import sections_in
from examples.rollouts import as_request, generate
from tests.reference import bioplanner, bioprobench, protocol_metrics, scorer, thoth_metrics

__all__ = [
    "ROUGE",
    "Record",
    "Values",
    "plain_err",
    "plain_ord",
    "plain_paper",
    "plain_pqa",
    "plain_pseudocode",
    "plain_rouge",
    "plain_steps",
    "plain_thoth",
    "records_of",
]

WORD = re.compile(r"[a-z]+")
ROUGE = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
"""Metrics with the names of rouge-score."""
NAN = math.nan
MAX_REFERENCES = 4_096
"""References that are parsed once, as many as in an evaluation."""

Record = dict[str, Any]
Values = dict[str, Any]
"""Values of one record by metric."""


def records_of(count: int, seed: int) -> dict[str, list[Record]]:
    """Return `count` records for each task, by its name."""
    dice = random.Random(seed)
    request = as_request(generate(-(-count // 5), 5, seed))
    pairs = [
        (response, request["references"][k])
        for response, k in zip(request["responses"], request["reference_index"], strict=True)
    ][:count]
    return {
        "score": [{"response": response, "reference": reference} for response, reference in pairs],
        "bioprobench.pqa": [question(dice, response) for response, _ in pairs],
        "bioprobench.ord": [ordering(dice, prose(reference)) for _, reference in pairs],
        "bioprobench.err": [verdict(dice, response) for response, _ in pairs],
        "bioplanner": [pseudocode(dice, prose(reference)) for _, reference in pairs],
        "bioprobench.gen": [generation(response, prose(reference)) for response, reference in pairs],
    }


def prose(answer: str) -> list[str]:
    """Return the lines of the `<orc>` section of an answer, or of the whole text."""
    sections = sections_in(answer)
    return [line.strip() for line in (sections.orc if sections else answer).splitlines() if line.strip()]


def question(dice: random.Random, response: str) -> Record:
    said = dice.choice(["5 ml & 80", "5 ml & 95%", "6 ml & 20", "5 ml 70", "5 ml & many", "5 ml"])
    block = f"[ANSWER_START]{said}[ANSWER_END]" if dice.random() < 0.9 else said
    return {"answer": "5 ml", "generated_response": f"<think>{response[:400]}</think>{block}"}


def ordering(dice: random.Random, steps: list[str]) -> Record:
    shown = dice.sample(steps, len(steps))
    right = [shown.index(step) for step in steps]
    swapped = dice.sample(right, len(right))
    said = dice.choice([right, right, swapped, swapped, right[1:]])
    return {"wrong_steps": shown, "correct_steps": steps, "generated_response": f"[ANSWER_START]{said}[ANSWER_END]"}


def verdict(dice: random.Random, response: str) -> Record:
    said = dice.choice(["True", "False", "true", "It is False.", "perhaps"])
    return {
        "is_correct": dice.random() < 0.5,
        "generated_response": f"<think>{response[:400]}</think>[ANSWER_START]{said}[ANSWER_END]",
    }


def generation(response: str, steps: list[str]) -> Record:
    return {"output": steps, "generated_response": "\n".join(prose(response)[:40])}


def pseudocode(dice: random.Random, steps: list[str]) -> Record:
    """Make a program with a call for each step, and a prediction with some calls missing or swapped."""
    words = [WORD.findall(step.lower()) for step in steps]
    calls = [f'{"_".join(w[1:3]) or "rest"}(what="{" ".join(w[3:8])}", times="{dice.randrange(9)}")' for w in words]
    names = sorted({call.partition("(")[0] for call in calls})
    functions = "".join(f"def {name}(what, times):\n    pass\n\n" for name in names[:50])
    predicted = [call for call in dice.sample(calls, len(calls)) if dice.random() < 0.9] or calls
    return {
        "ground_truth": functions + "\n".join(calls),
        "prediction_functions": functions,
        "prediction_code": "\n".join(predicted),
    }


def plain_paper(record: Record) -> Values:
    return protocol_metrics.paper_metrics(
        protocol_metrics.predicted_steps(record["response"]), parsed_reference(record["reference"])
    )


parsed_reference = lru_cache(MAX_REFERENCES)(scorer.parse_reference)


def plain_thoth(record: Record) -> Values:
    return thoth_metrics.thoth_metrics(record["response"], record["reference"])


def plain_pqa(record: Record) -> Values:
    read = bioprobench.pqa(record["generated_response"])
    if read is None:
        return {"accuracy": NAN, "brier": NAN}
    right = float(read[0] == record["answer"])
    return {"accuracy": right, "brier": (read[1] / 100 - right) ** 2}


def plain_ord(record: Record) -> Values:
    shown, right = record["wrong_steps"], record["correct_steps"]
    read = bioprobench.order(record["generated_response"], len(right))
    if read is None:
        return {"exact_match": NAN}
    answer = [shown[k] for k in read]
    bioprobench.pairs_in_order(answer, right)
    return {"exact_match": float(answer == right)}


def plain_err(record: Record) -> Values:
    said = bioprobench.verdict(record["generated_response"])
    return {"accuracy": NAN if said is None else float(said == record["is_correct"])}


def plain_rouge(record: Record) -> Values:
    """Call the library that the script calls, in the same way."""
    scores = rouge_scorer().score(" ".join(record["output"]), bioprobench.generated(record["generated_response"]))
    return {name: scores[kind].fmeasure for name, kind in ROUGE.items()}


@cache
def rouge_scorer() -> Any:
    return import_module("rouge_score.rouge_scorer").RougeScorer(list(ROUGE.values()), use_stemmer=True)


def plain_steps(record: Record) -> Values:
    """Compute the cosine of each pair of steps one by one, like the script."""
    lines = bioprobench.generated(record["generated_response"]).split("\n")
    steps = [line.strip() for line in lines if line.strip()]
    if not steps:
        return {"step_recall": 0.0, "step_precision": 1.0}
    ours, theirs = hashed_words(steps), hashed_words(record["output"])
    cosines = [
        [float(a @ b) / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)) or 1.0) for b in ours] for a in theirs
    ]
    return dict(zip(("step_recall", "step_precision"), bioprobench.step_shares(cosines), strict=True))


def plain_pseudocode(record: Record) -> Values:
    """Compute all metrics without embeddings; BLEU with the library that the script calls."""
    bleu = import_module("nltk.translate.bleu_score").sentence_bleu
    true, functions = record["ground_truth"], record["prediction_functions"]
    predicted = f"{functions}\n{record['prediction_code']}"
    names = [node.name for node in ast.walk(ast.parse(functions)) if isinstance(node, ast.FunctionDef)]
    ours, theirs = bioplanner.stated(predicted), bioplanner.stated(true)
    precisions, recalls = bioplanner.argument_shares(predicted, true)
    words = [
        [bioplanner.argument_words(calls[name]) for calls in (ours, theirs)] for name in ours.keys() & theirs.keys()
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bleus = [bleu([a], b, (0.5, 0.5)) for a, b in words]
    return {
        "function_precision": bioplanner.share(set(theirs), set(ours)),
        "function_recall": bioplanner.share(set(ours), set(theirs)),
        "argument_precision": np.mean(precisions),
        "argument_recall": np.mean(recalls),
        "argument_bleu": np.mean(bleus),
        "levenshtein": bioplanner.penalized_distance(names, predicted, true),
    }
