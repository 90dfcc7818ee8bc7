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
    match = BLOCK.search(response.split("</think>")[-1])
    if match is None:
        return FAILED
    block = match[1].strip()
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
    matches = BLOCK.findall(response.split("</think>")[-1])
    if not matches:
        return FAILED
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = ast.literal_eval(matches[-1].strip())
        if set(values) != set(range(steps)):
            return FAILED
        return [range(steps).index(int(k)) if isinstance(k, int) else [][k] for k in values]
    except Exception:
        return FAILED


def pairs_in_order(predicted: list[str], right: list[str]) -> tuple[int, int]:
    """Count (concordant, all) pairs of distinct texts, each at its last position."""
    last_given = {text: k for k, text in enumerate(predicted)}
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
    match = BLOCK.search(text)
    answer = match[1].strip() if match else text.strip().split("\n")[-1]
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


OPTION_LINE = re.compile(r"\s*([A-Ea-e])\s*[).：:\-、]?\s*(.+?)\s*")


def thoth_options(question: str) -> dict[str, str]:
    """Return the options of a question: what follows the letter on each line that begins with one from A to E."""
    lines = [OPTION_LINE.fullmatch(line) for line in question.splitlines()]
    return {line[1].upper(): line[2].strip() for line in lines if line}


def thoth_pqa(response: str, options: dict[str, str]) -> tuple[str, int] | None:
    """Return the full option, white space collapsed, and the confidence; or FAILED for an empty response."""
    text = response.strip()
    if not text:
        return FAILED
    number = re.search(r"&\s*(\d+(\.\d+)?)", text, re.ASCII)
    confidence = float(number[1]) if number else 0.0
    percent = 0 if math.isinf(confidence) else max(0, min(100, round(confidence)))
    words = [re.match(r"[A-Ea-e]\b", text), re.search(r"\b[A-Ea-e]\b", text)]
    letter = next((word[0].upper() for word in words if word), None)
    if letter is None:
        option = text
    elif letter in options:
        option = f"{letter}) {options[letter]}"
    else:
        rest = re.match(r"[A-Ea-e]\s*[).：:\-、]?\s*(.+?)\s*(&|$)", text)
        option = f"{letter}) {rest[1] if rest else ''}"
    return " ".join(option.split()), percent


def thoth_order(response: str, steps: int) -> list[int] | None:
    """Return a permutation of 1 to n: the whole text, or its last list of numbers; or FAILED."""
    text = response.strip().split("</think>")[-1].split("[/INST]")[-1]
    candidates = [text, *re.findall(r"\[\s*\d+\s*(?:,\s*\d+\s*)*\]", text)[-1:]]
    for candidate in candidates:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = ast.literal_eval(candidate)
        except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError):
            continue
        if isinstance(values, list):
            try:
                indices = [int(value) for value in values]
            except (TypeError, ValueError, OverflowError):
                return FAILED
            return indices if sorted(indices) == list(range(1, steps + 1)) else FAILED
    return FAILED


def thoth_pairs(predicted: list[int], right: list[int]) -> tuple[int, int]:
    """Count (concordant, all) pairs of positions of the right order, by the last position of each index in both."""
    last_given = {index: k for k, index in enumerate(predicted)}
    last_right = {index: k for k, index in enumerate(right)}
    every = list(combinations(right, 2))
    agree = [(last_given[a] - last_given[b]) * (last_right[a] - last_right[b]) > 0 for a, b in every]
    return sum(agree), len(every)


def thoth_verdict(response: str) -> bool | None:
    """Return True, False or FAILED: as `verdict`, in any case."""
    text = response.split("</think>")[-1].split("[/INST]")[-1]
    match = BLOCK.search(text)
    answer = (match[1] if match else text.strip().split("\n")[-1]).lower()
    return True if "true" in answer else False if "false" in answer else FAILED


def last_block_or_line(response: str) -> str | None:
    """Return the last block as the evaluator of 2026 reads it, else the last line; or FAILED for an empty text."""
    text = response.split("</think>")[-1].split("[/INST]")[-1].strip()
    return [*text.splitlines()[-1:], *BLOCK.findall(text)][-1].strip() if text else FAILED


def one_verdict(answer: str | None) -> bool | None:
    """Return True or False if the words of an answer are one of the two, in any case; or FAILED."""
    words = re.findall(r"\w+", answer or "")
    named = {word.lower() for word in words if word.casefold() in ("true", "false")}  # "falſe" is named, but neither
    return {("true",): True, ("false",): False}.get(tuple(named), FAILED)
