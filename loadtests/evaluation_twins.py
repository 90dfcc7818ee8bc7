"""Generated records for every evaluation, and the same metrics in plain Python."""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from assay.service.evaluate.text.embedders import hashed_words
from assay.service.evaluate.thoth import sections_in
from examples.rollouts import as_request, generate
from tests.reference import bioplanner, bioprobench, protocol_metrics, scorer, thoth_metrics

__all__ = [
    "PSEUDOCODE",
    "Columns",
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
PSEUDOCODE = (
    "function_precision",
    "function_recall",
    "argument_precision",
    "argument_recall",
    "argument_bleu",
    "levenshtein",
)

Columns = Mapping[str, Any]
"""Values of each metric, in the order of the records."""


def records_of(count: int, seed: int) -> dict[str, list[dict[str, Any]]]:
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


def question(dice: random.Random, response: str) -> dict[str, Any]:
    said = dice.choice(["5 ml & 80", "5 ml & 95%", "6 ml & 20", "5 ml 70", "5 ml & many", "5 ml"])
    block = f"[ANSWER_START]{said}[ANSWER_END]" if dice.random() < 0.9 else said
    return {"answer": "5 ml", "generated_response": f"<think>{response[:400]}</think>{block}"}


def ordering(dice: random.Random, steps: list[str]) -> dict[str, Any]:
    shown = dice.sample(steps, len(steps))
    right = [shown.index(step) for step in steps]
    swapped = dice.sample(right, len(right))
    said = dice.choice([right, right, swapped, swapped, right[1:]])
    return {
        "wrong_steps": shown,
        "correct_steps": steps,
        "generated_response": f"[ANSWER_START]{said}[ANSWER_END]",
    }


def verdict(dice: random.Random, response: str) -> dict[str, Any]:
    said = dice.choice(["True", "False", "true", "It is False.", "perhaps"])
    return {
        "is_correct": dice.random() < 0.5,
        "generated_response": f"<think>{response[:400]}</think>[ANSWER_START]{said}[ANSWER_END]",
    }


def generation(response: str, steps: list[str]) -> dict[str, Any]:
    return {"output": steps, "generated_response": "\n".join(prose(response)[:40])}


def pseudocode(dice: random.Random, steps: list[str]) -> dict[str, Any]:
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


def plain_paper(records: Sequence[dict[str, Any]]) -> Columns:
    parsed = {reference: scorer.parse_reference(reference) for reference in {r["reference"] for r in records}}
    found = [
        protocol_metrics.paper_metrics(
            protocol_metrics.predicted_steps(record["response"]), parsed[record["reference"]]
        )
        for record in records
    ]
    return {name: [values[name] for values in found] for name in found[0]}


def plain_thoth(records: Sequence[dict[str, Any]]) -> Columns:
    found = [thoth_metrics.thoth_metrics(record["response"], record["reference"]) for record in records]
    return {name: [values[name] for values in found] for name in found[0]}


def plain_pqa(records: Sequence[dict[str, Any]]) -> Columns:
    accuracy, brier = [], []
    for record in records:
        read = bioprobench.pqa(record["generated_response"])
        right = float(read is not None and read[0] == record["answer"])
        accuracy.append(np.nan if read is None else right)
        brier.append(np.nan if read is None else (read[1] / 100 - right) ** 2)
    return {"accuracy": accuracy, "brier": brier}


def plain_ord(records: Sequence[dict[str, Any]]) -> Columns:
    exact = []
    for record in records:
        shown, right = record["wrong_steps"], record["correct_steps"]
        read = bioprobench.order(record["generated_response"], len(right))
        given = None if read is None else [shown[k] for k in read]
        exact.append(np.nan if given is None else float(given == right))
        if given is not None:
            bioprobench.pairs_in_order(given, right)
    return {"exact_match": exact}


def plain_err(records: Sequence[dict[str, Any]]) -> Columns:
    read = [bioprobench.verdict(record["generated_response"]) for record in records]
    pairs = zip(read, records, strict=True)
    return {"accuracy": [np.nan if said is None else float(said == r["is_correct"]) for said, r in pairs]}


def plain_rouge(records: Sequence[dict[str, Any]]) -> Columns:
    """Call the library that the script calls, in the same way."""
    kinds = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
    scorer = import_module("rouge_score.rouge_scorer").RougeScorer(list(kinds.values()), use_stemmer=True)
    found = [scorer.score(" ".join(r["output"]), bioprobench.generated(r["generated_response"])) for r in records]
    return {name: [values[kind].fmeasure for values in found] for name, kind in kinds.items()}


def plain_steps(records: Sequence[dict[str, Any]]) -> Columns:
    """Compute the cosine of each pair of steps one by one, like the script."""
    recall, precision = [], []
    for record in records:
        steps = [
            line.strip() for line in bioprobench.generated(record["generated_response"]).split("\n") if line.strip()
        ]
        if not steps:
            recall.append(0.0)
            precision.append(1.0)
            continue
        ours, theirs = hashed_words(steps), hashed_words(record["output"])
        cosines = [
            [float(a @ b) / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)) or 1.0) for b in ours] for a in theirs
        ]
        shares = bioprobench.step_shares(cosines)
        recall.append(shares[0])
        precision.append(shares[1])
    return {"step_recall": recall, "step_precision": precision}


def plain_pseudocode(records: Sequence[dict[str, Any]]) -> Columns:
    """Compute all metrics but those of embeddings; BLEU with the library that the script calls."""
    bleu = import_module("nltk.translate.bleu_score").sentence_bleu
    found: dict[str, list[float]] = {name: [] for name in PSEUDOCODE}
    for record in records:
        true, functions = record["ground_truth"], record["prediction_functions"]
        predicted = f"{functions}\n{record['prediction_code']}"
        names = [node.name for node in ast.walk(ast.parse(functions)) if isinstance(node, ast.FunctionDef)]
        ours, theirs = bioplanner.stated(predicted), bioplanner.stated(true)
        found["function_precision"].append(bioplanner.share(set(theirs), set(ours)))
        found["function_recall"].append(bioplanner.share(set(ours), set(theirs)))
        precisions, recalls = bioplanner.argument_shares(predicted, true)
        found["argument_precision"].append(np.mean(precisions))
        found["argument_recall"].append(np.mean(recalls))
        pairs = [(ours[name], theirs[name]) for name in ours.keys() & theirs.keys()]
        words = [[bioplanner.argument_words(arguments) for arguments in pair] for pair in pairs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["argument_bleu"].append(np.mean([bleu([a], b, (0.5, 0.5)) for a, b in words]))
        found["levenshtein"].append(bioplanner.penalized_distance(names, predicted, true))
    return found
