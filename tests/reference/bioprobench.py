"""BioProBench's parsers of answers and their metrics, from the description of each task."""

import ast
import math
import re
import warnings
from itertools import combinations
from typing import Any

BLOCK = re.compile(r"\[ANSWER_START\](.*?)\[ANSWER_END\]", re.DOTALL)
FAILED = None


def pqa(response: Any) -> tuple[str, int] | None:
    """Return answer and confidence of the first block, or FAILED."""
    if not isinstance(response, str):
        return FAILED
    found = BLOCK.search(response.split("</think>")[-1])
    if found is None:
        return FAILED
    block = found[1].strip()
    if "&" in block:
        parts = block.split("&")
        if len(parts) != 2:
            return FAILED
        answer, confidence = parts
    else:
        *words, confidence = block.split(" ")
        answer = " ".join(words)
    digits = re.findall(r"\d+", confidence)
    if not digits or int(digits[0]) > 100:
        return FAILED
    return answer.strip(), int(digits[0])


def order(response: Any, steps: int) -> list[int] | None:
    """Return the indices of the last block, or FAILED."""
    if not isinstance(response, str):
        return FAILED
    found = BLOCK.findall(response.split("</think>")[-1])
    if not found:
        return FAILED
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = ast.literal_eval(found[-1].strip())
        if set(given) != set(range(steps)):
            return FAILED
        return [range(steps).index(int(k)) if isinstance(k, int) else [][k] for k in given]
    except Exception:
        return FAILED


def pairs_in_order(given: list[str], right: list[str]) -> tuple[int, int]:
    """Count (concordant, all) pairs of distinct texts, each at its last position."""
    last_given = {text: k for k, text in enumerate(given)}
    last_right = {text: k for k, text in enumerate(right)}
    every = list(combinations(last_right, 2))
    concordant = sum((last_given[a] < last_given[b]) == (last_right[a] < last_right[b]) for a, b in every)
    return concordant, len(every)


def verdict(response: Any, cut_instruction: bool = True) -> bool | None:
    """Return True, False or FAILED."""
    if not isinstance(response, str):
        return FAILED
    text = response.split("</think>")[-1]
    if cut_instruction:
        text = text.split("[/INST]")[-1]
    found = BLOCK.search(text)
    answer = found[1].strip() if found else text.strip().split("\n")[-1]
    if "True" in answer or "true" in answer:
        return True
    if "False" in answer or "false" in answer:
        return False
    return FAILED


def generated(text: str) -> str:
    """Return the part of a response that GEN scores."""
    text = text.split("</think>")[-1].strip().split("</Structure>")[-1].strip()
    return text.split("[ANSWER_START]")[-1].strip().split("[ANSWER_END]")[0].strip()


def step_shares(similarity: list[list[float]], threshold: float = 0.7) -> tuple[float, float]:
    """Return recall and precision of steps from cosines, with a row for each reference step and at least one column."""
    columns = list(zip(*similarity, strict=True))
    recall = sum(any(value >= threshold for value in row) for row in similarity) / len(similarity)
    precision = sum(any(value >= threshold for value in column) for column in columns) / len(columns)
    return recall, precision


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
