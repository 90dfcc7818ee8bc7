"""Tables of a checked data set, for a terminal and for the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..explain.numbers import first_n, format_number, plural
from ..report.rendering import fixed, share
from ..report.tables import ERROR, NOTHING, TextTable
from ..terminal import table
from .data_set import DataSet
from .earnings import Earned

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["gates_table", "policies_table", "terminal_parts", "words_table"]

MAX_WORDS = 12
"""Words that the terminal lists."""


def gates_table(data: DataSet) -> TextTable:
    """Return how many gold answers pass at which min_coverage, and what they earn."""
    configured, suggested = data.scorer.settings.min_coverage, data.gold.suggested()
    rows = []
    for level in data.gold.levels():
        marks = ["configured"] if level.min_coverage == configured else []
        marks += ["suggested"] if suggested is not None and level.min_coverage == suggested.min_coverage else []
        passed = share(level.passed / data.gold.number)
        reward = fixed(level.mean_reward)
        rows.append([format_number(level.min_coverage), f"{level.passed:,}", passed, reward, ", ".join(marks)])
    return TextTable(["min_coverage", "pass", "share", "mean reward", ""], rows)


def words_table(data: DataSet, most: int) -> TextTable:
    """Return the words that the prose of gold answers leaves out."""
    rows = [[word, f"{count:,}", str(place)] for word, count, place in data.gold.failing_words()[:most]]
    return TextTable(["word", "answers", "first"], rows)


def policies_table(data: DataSet) -> TextTable:
    """Return what every policy earns beside the gold answers."""
    policies = data.policies()
    notes = []
    if policies[0].rewards.standard_error is not None or policies[1].rewards.standard_error is not None:
        notes.append("±: standard error of the mean over the records.")
    number = max(earned.rewards.number for earned in policies)
    for earned in policies[1:]:
        if earned.mean_of_answered is None:
            notes.append(f"{earned.policy.title}: no record names one.")
        elif earned.answered < earned.rewards.number:
            notes.append(
                f"{earned.policy.title}: {earned.answered:,} of {plural(number, 'record')} name one, and earn "
                f"{fixed(earned.mean_of_answered)}; the others count as empty responses."
            )
    return TextTable(["", "mean reward", "pass", "versus gold"], [policy_row(earned) for earned in policies], notes)


def policy_row(earned: Earned) -> list[str]:
    mean, error = earned.rewards.mean, earned.rewards.standard_error
    if mean is None:
        return [earned.policy.title, NOTHING, NOTHING, NOTHING]
    reward = fixed(mean) + ("" if error is None else f"{ERROR}{fixed(error)}")
    difference = NOTHING if earned.gold_difference is None else f"{earned.gold_difference:+z.4f}".replace("-", "−")
    return [earned.policy.title, reward, share(earned.passed / earned.rewards.number), difference]


def terminal_parts(data: DataSet) -> Iterator[str | Table]:
    """Yield what the terminal shows after the findings."""
    if data.gold.number:
        gates = gates_table(data)
        yield table(gates.heads, gates.rows)
        if data.gold.words:
            words = [f"{word} ({count:,})" for word, count, _ in data.gold.failing_words()]
            yield f"Words that they leave out: {first_n(words, MAX_WORDS)}"
        yield ""
    policies = policies_table(data)
    if data.policies()[1].rewards.number:
        yield table(policies.heads, policies.rows)
        yield from policies.notes
        yield ""
    for advice in data.advice():
        yield f"{'' if advice.good else 'warning: '}{advice.text}"
    if data.no_duplicates:
        yield f"Near-duplicates were not searched for. {data.no_duplicates}"
