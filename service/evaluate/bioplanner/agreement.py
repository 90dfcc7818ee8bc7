"""Agreement of the calls of a predicted program with those of the true one: names, arguments and their values."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..text.bleu import METHOD_1, NO_SMOOTHING, sentence_bleu
from .calls import Call

__all__ = [
    "argument_bleu",
    "argument_precision_recall",
    "matched_by_name",
    "matched_in_order",
    "mean",
    "precision_recall",
    "value_pairs",
]

NAN = math.nan
SEPARATOR = re.compile(r"""[\s,()"']""")

Matched = list[tuple[Mapping[str, str], Mapping[str, str]]]
"""Arguments of matched calls: (predicted, true)."""


def precision_recall(predicted: Iterable[str], true: Iterable[str]) -> tuple[float, float]:
    """Return precision and recall of names, counted as often as they occur; NaN without any."""
    ours, theirs = Counter(list(predicted)), Counter(list(true))
    common = (ours & theirs).total()
    return (
        common / ours.total() if ours else NAN,
        common / theirs.total() if theirs else NAN,
    )


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN, NaN without any."""
    numbers = [value for value in values if not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else NAN


def matched_by_name(predicted: Mapping[str, Mapping[str, str]], true: Mapping[str, Mapping[str, str]]) -> Matched:
    """Match the calls of each function once, as the script does."""
    return [(arguments, true[name]) for name, arguments in predicted.items() if name in true]


def matched_in_order(predicted: Sequence[Call], true: Sequence[Call]) -> Matched:
    """Match the first calls of a function with each other, the second calls, and so on."""
    left: defaultdict[str, list[Mapping[str, str]]] = defaultdict(list)
    for call in reversed(true):
        left[call.name].append(call.arguments)
    return [(call.arguments, left[call.name].pop()) for call in predicted if left[call.name]]


def argument_precision_recall(matched: Matched) -> tuple[float, float]:
    """Return the means over the matched calls of the precision and recall of the arguments' names."""
    found = [precision_recall(predicted, true) for predicted, true in matched]
    return mean(precision for precision, _ in found), mean(recall for _, recall in found)


def argument_bleu(matched: Matched, as_script: bool) -> float:
    """Return the mean BLEU-2 of the texts `name value name value …` of matched calls, NaN without any.

    as_script: unsmoothed, with the true text as the hypothesis and the predicted one as the reference.
    """
    scores = []
    for predicted, true in matched:
        ours, theirs = words(predicted), words(true)
        scores.append(
            sentence_bleu(ours, theirs, smoothing=NO_SMOOTHING)
            if as_script
            else sentence_bleu(theirs, ours, smoothing=METHOD_1)
        )
    return mean(scores)


def words(arguments: Mapping[str, str]) -> list[str]:
    text = " ".join(part for pair in arguments.items() for part in pair)
    return [word for word in SEPARATOR.split(text) if word]


def value_pairs(matched: Matched) -> list[tuple[str, str]]:
    """Return the (predicted, true) values of the arguments that both of two matched calls have."""
    return [(value, true[name]) for predicted, true in matched for name, value in predicted.items() if name in true]
