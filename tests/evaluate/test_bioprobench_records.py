"""BioProBench's metrics over files of seeded records: each record, and the aggregates, by the textbook twin."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from assay.service.tasks.evaluation import Result, evaluate
from assay.service.tasks.text.embedders import hashed_words
from tests.reference import bioprobench as twin
from tests.reference import word_overlap

pytestmark = pytest.mark.parametrize("seed", range(3))

Values = Sequence[float | bool | None]


def check(result: Result, aggregate: Mapping[str, float], per_record: Mapping[str, Values]) -> None:
    """Compare with the twin's numbers; None is no value."""
    for name, values in per_record.items():
        expected = np.array([math.nan if value is None else value for value in values], float)
        np.testing.assert_allclose(result.per_record[name], expected, rtol=0, atol=1e-9, err_msg=name)
    for name, value in aggregate.items():
        assert result.aggregate[name] == pytest.approx(value, abs=1e-9), name


def check_failed(result: Result, answers: Sequence[object]) -> None:
    failed = [row for row, answer in enumerate(answers) if answer is None]
    assert 0 < len(failed) < len(answers)
    assert [failure.record for failure in result.failed] == failed
    assert result.aggregate["failed"] == pytest.approx(len(failed) / len(answers))


def of_answers(value: Callable[..., Any], answers: Sequence[Any], records: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return a value of each answer and its record; None where there is no answer."""
    return [None if answer is None else value(answer, record) for answer, record in zip(answers, records, strict=True)]


def read(values: Values) -> list[float]:
    return [float(value) for value in values if value is not None]


def dressed(dice: random.Random, answer: str) -> str | None:
    """Return a response with an answer in its block; now and then thoughts, a second block, no block or no text."""
    block = f"[ANSWER_START]{answer}[ANSWER_END]"
    shapes = [block, f"<think>[ANSWER_START]b & 3[ANSWER_END]</think>\n{block}", f"So: {block}."]
    return dice.choices([*shapes, f"{block} or {block}", answer, None], [6, 2, 2, 1, 1, 1])[0]


def test_pqa(seed: int) -> None:
    dice = random.Random(seed)
    choices = ["5 µM", "50 µM", "a", "b & c"]
    records = []
    for _ in range(300):
        said = dice.choice(choices) + dice.choice(["&", " & ", " "]) + dice.choice(["90", "70%", "5", "٥٠", "130", "-"])
        records.append({"answer": dice.choice(choices), "generated_response": dressed(dice, said)})
    answers = [twin.pqa(record["generated_response"]) for record in records]
    right = of_answers(lambda answer, record: answer[0] == record["answer"], answers, records)
    brier = of_answers(
        lambda answer, record: (answer[1] / 100 - (answer[0] == record["answer"])) ** 2, answers, records
    )
    result = evaluate("bioprobench.pqa", records)
    check_failed(result, answers)
    aggregate = {"accuracy": twin.mean(read(right)), "brier": twin.mean(read(brier))}
    check(result, aggregate | {"accuracy_over_all": sum(read(right)) / 300}, {"accuracy": right, "brier": brier})


@pytest.mark.parametrize("repeats", ["last", "failed"])
def test_ord(seed: int, repeats: str) -> None:
    dice = random.Random(seed)
    records = []
    for _ in range(300):
        right = [f"step {dice.randrange(20)}" for _ in range(dice.randrange(1, 9))]
        places = range(len(right))
        order = dice.sample(places, len(right)) + dice.choices(places, k=dice.choice([0, 0, 0, 2]))
        said = dice.choices([str(order), str(order[:-1]), "no idea"], [6, 1, 1])[0]
        shown = dice.sample(right, len(right))
        records.append({"wrong_steps": shown, "correct_steps": right, "generated_response": dressed(dice, said)})
    answers = [twin.order(record["generated_response"], len(record["correct_steps"])) for record in records]
    if repeats == "failed":
        most = [len(record["correct_steps"]) for record in records]
        answers = [None if (answer and len(answer) > n) else answer for answer, n in zip(answers, most, strict=True)]
    orders = of_answers(lambda answer, record: [record["wrong_steps"][k] for k in answer], answers, records)
    exact = of_answers(lambda order, record: order == record["correct_steps"], orders, records)
    counts = of_answers(lambda order, record: twin.pairs_in_order(order, record["correct_steps"]), orders, records)
    tau = of_answers(lambda count, _: (2 * count[0] - count[1]) / count[1] if count[1] else 0.0, counts, records)
    concordant, pairs = (sum(column) for column in zip(*filter(None, counts), strict=True))
    result = evaluate("bioprobench.ord", records, repeats=repeats)
    check_failed(result, answers)
    aggregate = {
        "exact_match": twin.mean(read(exact)),
        "exact_match_over_all": sum(read(exact)) / 300,
        "kendall_tau": (2 * concordant - pairs) / pairs,
        "kendall_tau_macro": twin.mean(read(tau)),
    }
    check(result, aggregate, {"exact_match": exact, "kendall_tau": tau})


def verdicts(dice: random.Random, **fields: Any) -> list[dict[str, Any]]:
    said = ["True", "true", "False", "it is false", "no", "[/INST]True", "True[/INST]\nno"]
    return [
        {"is_correct": dice.choice([True, False]), "generated_response": dressed(dice, dice.choice(said)), **fields}
        for _ in range(300)
    ]


def classified(said: Values, records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return accuracy, precision, recall and F1; a positive is a step that is called erroneous."""
    pairs = [*filter(None, of_answers(lambda verdict, record: (verdict, record["is_correct"]), said, records))]
    hits = sum(not verdict and not truth for verdict, truth in pairs)
    precision = hits / sum(not verdict for verdict, _ in pairs)
    recall = hits / sum(not truth for _, truth in pairs)
    return {
        "accuracy": twin.mean([float(verdict == truth) for verdict, truth in pairs]),
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall),
    }


@pytest.mark.parametrize("strict_markers", [False, True])
def test_err(seed: int, strict_markers: bool) -> None:
    records = verdicts(random.Random(seed))
    said = [twin.verdict(record["generated_response"]) for record in records]
    if strict_markers:
        texts = [re.split(r"</think>|\[/INST\]", str(record["generated_response"]))[-1] for record in records]
        said = [answer if twin.BLOCK.search(text) else None for answer, text in zip(said, texts, strict=True)]
    result = evaluate("bioprobench.err", records, strict_markers=strict_markers)
    check_failed(result, said)
    right = of_answers(lambda answer, record: answer == record["is_correct"], said, records)
    assert result.aggregate["accuracy_bool_gold"] == result.aggregate["accuracy"]
    check(result, classified(said, records) | {"accuracy_over_all": sum(read(right)) / 300}, {"accuracy": right})


def test_rea_err(seed: int) -> None:
    dice = random.Random(seed)
    records = [
        record | ({"LLM_judge": dressed(dice, dice.choice(["True", "False", "?"]))} if dice.random() < 0.9 else {})
        for record in verdicts(dice, corrupted_text="Spin at 5 g.")
    ]
    said = [twin.verdict(record["generated_response"]) for record in records]
    judged = [twin.verdict(record["LLM_judge"], cut_instruction=False) for record in records if "LLM_judge" in record]
    judgements = iter(judged)
    consistent = [next(judgements) if "LLM_judge" in record else None for record in records]
    flagged = [
        None if record["is_correct"] else answer is False and agreed is True
        for record, answer, agreed in zip(records, said, consistent, strict=True)
    ]
    result = evaluate("bioprobench.rea_err", records)
    check_failed(result, said)
    aggregate = classified(said, records) | {
        "consistency": twin.mean(read(judged)),
        "judge_failed": judged.count(None) / len(judged),
        "consistency_eq8": twin.mean(read(flagged)),
    }
    check(result, aggregate, {"consistency": consistent, "consistency_eq8": flagged})


WORDS = ["wash", "the", "cells", "with", "5", "ml", "of", "PBS", "spin", "tube", "tubes", "at", "4", "°C", "washed"]


def generations(seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)

    def steps(most: int) -> list[str]:
        return [
            " ".join(["Use", *dice.choices(WORDS, k=dice.randrange(1, 9))]) + "."
            for _ in range(dice.randrange(1, most))
        ]

    records = []
    for _ in range(60):
        reference = steps(6)
        said = "\n".join(dice.choice([reference[::-1], reference[:2] + steps(4), steps(6)]))
        frame = dice.choice(["{}", "<think>Spin.</think>{}", "[ANSWER_START]\n{}\n[ANSWER_END] Wash."])
        records.append({"output": reference, "generated_response": frame.format(said)})
    return records


def rouge_words(text: str, stem: Callable[[str], str]) -> list[str]:
    return [stem(word) if len(word) > 3 else word for word in re.findall("[a-z0-9]+", text.lower())]


def keywords(text: str) -> set[str]:
    return set(re.findall(r"\w\w+", text.lower())) - {"the", "with", "of", "at"}


def test_gen(seed: int) -> None:
    stem = pytest.importorskip("nltk").PorterStemmer().stem
    records, rows = generations(seed), []
    for record in records:
        steps, text = record["output"], twin.generated(record["generated_response"])
        said = [line.strip() for line in text.split("\n") if line.strip()]
        vectors = hashed_words([*steps, *said])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        recall, precision = twin.step_shares((vectors[: len(steps)] @ vectors[len(steps) :].T).tolist())
        theirs, ours = rouge_words(" ".join(steps), stem), rouge_words(text, stem)
        of_theirs, of_ours = keywords(" ".join(steps)), keywords(text)
        common = len(of_theirs & of_ours)
        rows.append(
            {
                "step_recall": recall,
                "step_precision": precision,
                "rouge_1": word_overlap.rouge_n(theirs, ours, 1),
                "rouge_2": word_overlap.rouge_n(theirs, ours, 2),
                "rouge_l": word_overlap.rouge_l(theirs, ours),
                "keyword_precision": common / len(of_ours),
                "keyword_recall": common / len(of_theirs),
            }
        )
    expected = {name: [row[name] for row in rows] for name in rows[0]}
    result = evaluate("bioprobench.gen", records, embedder="hashed_words", metrics=list(expected))
    assert result.failed == []
    check(result, {name: twin.mean(column) for name, column in expected.items()}, expected)
