"""Compares evaluation with plain-Python reference implementations and recorded times of the public scripts.

Both benchmarks of a pair process the same records, made from generated rollouts, and must give the same values.
"""

from __future__ import annotations

import ast
import random
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np

from ..evaluate.evaluation import evaluate
from ..evaluate.text.embedders import hashed_words
from ..evaluate.thoth import sections_in
from .checkout import batch_of, reference_package
from .measure import Run, WrongAnswerError, clocked

__all__ = ["COMPARISONS", "Comparison", "EvaluationBenchmark", "benchmarks_of", "records_of"]

TOLERANCE = 1e-9
WORD = re.compile(r"[a-z]+")

Columns = Mapping[str, Any]
"""Values of each metric, in the order of the records."""


class Comparison(NamedTuple):
    """One evaluation and its plain-Python reference."""

    name: str
    title: str
    task: str
    options: dict[str, Any]
    plain: Callable[[Sequence[dict[str, Any]]], Columns]
    """Computes the values to check, by metric."""
    share: float
    """Share of the records that plain Python processes per run: some metrics are slow."""
    script: float | None
    """CPU microseconds per record of the public script's metrics, models loaded, on a 2.5 GHz Xeon with the records of
    the benchmark; for orientation only.
    """


class EvaluationBenchmark:
    """One side of a comparison."""

    def __init__(
        self, name: str, title: str, records: Sequence[dict[str, Any]], work: Callable[[], Columns], expected: Columns
    ) -> None:
        self.name, self.title, self.responses = name, title, len(records)
        self._work, self._expected = work, expected

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self) -> Run:
        columns, run = clocked(self._work, time.process_time)
        for name, expected in self._expected.items():
            found = np.asarray(columns[name], np.float64)[: len(expected)]
            if not np.allclose(found, expected, rtol=0, atol=TOLERANCE, equal_nan=True):
                raise WrongAnswerError(f"{self.name}: {name} differs from the reference")
        return run


def records_of(count: int, seed: int) -> dict[str, list[dict[str, Any]]]:
    """Return `count` records for each task, by its name."""
    dice = random.Random(seed)
    request = batch_of(-(-count // 5), 5, seed)
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


# Plain-Python references


def reference_module(module: str) -> Any:
    return import_module(f"{reference_package().__name__}.{module}")


def plain_paper(records: Sequence[dict[str, Any]]) -> Columns:
    metrics, scorer = reference_module("protocol_metrics"), reference_module("scorer")
    parsed = {reference: scorer.parse_reference(reference) for reference in {r["reference"] for r in records}}
    found = [
        metrics.paper_metrics(metrics.predicted_steps(record["response"]), parsed[record["reference"]])
        for record in records
    ]
    return {name: [values[name] for values in found] for name in found[0]}


def plain_thoth(records: Sequence[dict[str, Any]]) -> Columns:
    metrics = reference_module("thoth_metrics")
    found = [metrics.thoth_metrics(record["response"], record["reference"]) for record in records]
    return {name: [values[name] for values in found] for name in found[0]}


def plain_pqa(records: Sequence[dict[str, Any]]) -> Columns:
    metrics = reference_module("bioprobench")
    accuracy, brier = [], []
    for record in records:
        read = metrics.pqa(record["generated_response"])
        right = float(read is not None and read[0] == record["answer"])
        accuracy.append(np.nan if read is None else right)
        brier.append(np.nan if read is None else (read[1] / 100 - right) ** 2)
    return {"accuracy": accuracy, "brier": brier}


def plain_ord(records: Sequence[dict[str, Any]]) -> Columns:
    metrics = reference_module("bioprobench")
    exact = []
    for record in records:
        shown, right = record["wrong_steps"], record["correct_steps"]
        read = metrics.order(record["generated_response"], len(right))
        given = None if read is None else [shown[k] for k in read]
        exact.append(np.nan if given is None else float(given == right))
        if given is not None:
            metrics.pairs_in_order(given, right)
    return {"exact_match": exact}


def plain_err(records: Sequence[dict[str, Any]]) -> Columns:
    metrics = reference_module("bioprobench")
    read = [metrics.verdict(record["generated_response"]) for record in records]
    pairs = zip(read, records, strict=True)
    return {"accuracy": [np.nan if said is None else float(said == r["is_correct"]) for said, r in pairs]}


def plain_rouge(records: Sequence[dict[str, Any]]) -> Columns:
    """Call the library that the script calls, in the same way."""
    kinds = {"rouge_1": "rouge1", "rouge_2": "rouge2", "rouge_l": "rougeL"}
    scorer = import_module("rouge_score.rouge_scorer").RougeScorer(list(kinds.values()), use_stemmer=True)
    metrics = reference_module("bioprobench")
    found = [scorer.score(" ".join(r["output"]), metrics.generated(r["generated_response"])) for r in records]
    return {name: [values[kind].fmeasure for values in found] for name, kind in kinds.items()}


def plain_steps(records: Sequence[dict[str, Any]]) -> Columns:
    """Compute the cosine of each pair of steps one by one, like the script."""
    metrics = reference_module("bioprobench")
    recall, precision = [], []
    for record in records:
        steps = [line.strip() for line in metrics.generated(record["generated_response"]).split("\n") if line.strip()]
        if not steps:
            recall.append(0.0)
            precision.append(1.0)
            continue
        ours, theirs = hashed_words(steps), hashed_words(record["output"])
        cosines = [
            [float(a @ b) / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)) or 1.0) for b in ours] for a in theirs
        ]
        shares = metrics.step_shares(cosines)
        recall.append(shares[0])
        precision.append(shares[1])
    return {"step_recall": recall, "step_precision": precision}


def plain_pseudocode(records: Sequence[dict[str, Any]]) -> Columns:
    """Compute all metrics but those of embeddings; BLEU with the library that the script calls."""
    metrics, bleu = reference_module("bioplanner"), import_module("nltk.translate.bleu_score").sentence_bleu
    found: dict[str, list[float]] = {name: [] for name in PSEUDOCODE["metrics"]}
    for record in records:
        true, functions = record["ground_truth"], record["prediction_functions"]
        predicted = f"{functions}\n{record['prediction_code']}"
        names = [node.name for node in ast.walk(ast.parse(functions)) if isinstance(node, ast.FunctionDef)]
        ours, theirs = metrics.stated(predicted), metrics.stated(true)
        found["function_precision"].append(metrics.share(set(theirs), set(ours)))
        found["function_recall"].append(metrics.share(set(ours), set(theirs)))
        precisions, recalls = metrics.argument_shares(predicted, true)
        found["argument_precision"].append(np.mean(precisions))
        found["argument_recall"].append(np.mean(recalls))
        pairs = [(ours[name], theirs[name]) for name in ours.keys() & theirs.keys()]
        words = [[metrics.argument_words(arguments) for arguments in pair] for pair in pairs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["argument_bleu"].append(np.mean([bleu([a], b, (0.5, 0.5)) for a, b in words]))
        found["levenshtein"].append(metrics.penalized_distance(names, predicted, true))
    return found


PSEUDOCODE = {
    "metrics": [
        "function_precision",
        "function_recall",
        "argument_precision",
        "argument_recall",
        "argument_bleu",
        "levenshtein",
    ]
}
ROUGE = ["rouge_1", "rouge_2", "rouge_l"]
STEPS = {"metrics": ["step_recall", "step_precision"], "embedder": "hashed_words"}

COMPARISONS = (
    Comparison("score_paper", "SCORE, profile paper", "score", {}, plain_paper, 0.2, None),
    Comparison("score_thoth", "SCORE, profile thoth", "score", {"profile": "thoth"}, plain_thoth, 1.0, None),
    Comparison("pqa", "BioProBench PQA", "bioprobench.pqa", {}, plain_pqa, 1.0, 3.5),
    Comparison("ord", "BioProBench ORD", "bioprobench.ord", {}, plain_ord, 1.0, 39.7),
    Comparison("err", "BioProBench ERR", "bioprobench.err", {}, plain_err, 1.0, 2.1),
    Comparison("bioplanner", "BioPlanner", "bioplanner", PSEUDOCODE, plain_pseudocode, 0.2, 4500.0),
    Comparison("gen_rouge", "BioProBench GEN, ROUGE", "bioprobench.gen", {"metrics": ROUGE}, plain_rouge, 0.1, None),
    Comparison("gen_steps", "BioProBench GEN, steps", "bioprobench.gen", STEPS, plain_steps, 0.2, 249_000.0),
)


def benchmarks_of(
    comparison: Comparison, records: Sequence[dict[str, Any]]
) -> tuple[EvaluationBenchmark, EvaluationBenchmark]:
    """Return our benchmark and the plain one of a comparison; raises ModuleNotFoundError if a library is missing."""
    few = records[: max(1, round(comparison.share * len(records)))]
    expected = comparison.plain(few)

    def ours() -> Columns:
        return evaluate(comparison.task, records, **comparison.options).per_record

    return (
        EvaluationBenchmark(comparison.name, comparison.title, records, ours, expected),
        EvaluationBenchmark(
            f"{comparison.name}_plain", f"{comparison.title}, plain", few, lambda: comparison.plain(few), expected
        ),
    )
