"""What was kept and why, for a terminal and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..tables.table import Table
from ..wording import plural, share
from .choices import Choice
from .options import ALL, Options
from .scored_rows import RowReader

__all__ = ["REASONS", "Summary"]

REASONS = {
    "single": "one response only",
    "no_spread": "all rewards are equal (within 1e-9)",
    "all_failed_gate": "no response passes the gates",
    "all_below_min_reward": "no response reaches --min-reward",
    "none_passed": "no response passes",
    "below_margin": "no pair reaches --margin",
    "below_min_pass_rate": "too hard: below --min-pass-rate",
    "above_max_pass_rate": "too easy: above --max-pass-rate",
    "failed_gate": "fails a gate",
    "below_min_reward": "below --min-reward",
    "not_passed": "does not pass",
    "duplicate": "the text of another response of its group",
    "not_among_best": "others of its group are better",
}


@dataclass
class Summary:
    options: Options
    grouped_by: str
    pass_rule: str | None
    reader: RowReader
    choice: Choice

    @property
    def written(self) -> int:
        return len(self.choice.picked)

    @property
    def groups(self) -> int:
        return self.choice.kept_groups + len(self.choice.dropped_groups)

    def rewards(self) -> dict[str, float | None]:
        rows, choice = self.reader.rows, self.choice
        means = {"all": mean(rows.rewards)}
        if self.options.mode == "pairs":
            for name, chosen in (("chosen", choice.picked), ("rejected", choice.rejected)):
                means[name] = mean([rows.rewards[row] for row in chosen])
        elif self.options.mode == "best":
            means["kept"] = mean([rows.rewards[row] for row in choice.picked])
        else:
            grouped = zip(rows.rewards, rows.groups, strict=True)
            means["kept"] = mean([reward for reward, group in grouped if group not in choice.dropped_groups])
        return means

    def as_json(self) -> dict[str, Any]:
        reader, choice = self.reader, self.choice
        per_group = "all" if self.options.per_group == ALL else self.options.per_group
        return {
            "options": {**self.options._asdict(), "per_group": per_group},
            "grouped_by": self.grouped_by,
            "passed_if": self.pass_rule,
            "rows": {
                "read": reader.read,
                "scored": len(reader.rows),
                "passed": sum(reader.rows.passed) if self.pass_rule is not None else None,
                "not_scored": counts(reader.not_scored),
                "faults": counts(reader.faults),
                "dropped": counts(choice.dropped_rows),
            },
            "groups": {
                "all": self.groups,
                "kept": choice.kept_groups,
                "dropped": counts(Counter(choice.dropped_groups.values())),
            },
            "written": self.written,
            "mean_reward": self.rewards(),
        }

    def parts(self) -> Iterator[str | Table]:
        figures, reader, groups = self.as_json(), self.reader, self.groups
        noun = "pair" if self.options.mode == "pairs" else "response"
        rows_kept = "" if self.options.mode == "curriculum" else f"{plural(self.written, noun)} from "
        kept = self.choice.kept_groups
        yield f"read         {plural(reader.read, 'row')} in {plural(groups, 'group')} of equal {self.grouped_by}"
        yield f"kept         {rows_kept}{kept:,} of {plural(groups, 'group')}{in_parentheses(kept, groups)}"
        if self.pass_rule is not None:
            passed = sum(reader.rows.passed)
            part = in_parentheses(passed, len(reader.rows))
            yield f"passed       {plural(passed, 'response')}{part}: {self.pass_rule}"
        means = [f"{name} {value:.4f}" for name, value in figures["mean_reward"].items() if value is not None]
        if means:
            yield f"mean reward  {', '.join(means)}"
        rows = figures["rows"]
        if lost := [*rows["not_scored"].items(), *rows["faults"].items()]:
            yield from ("", Table(["rows left out", "rows"], lost))
        for noun, dropped in (("groups", figures["groups"]["dropped"]), ("responses", rows["dropped"])):
            if dropped:
                explained = [(reason, REASONS[reason], number) for reason, number in dropped.items()]
                yield from ("", Table([f"{noun} dropped", "why", noun], explained, left=2))


def counts(counter: Counter[str]) -> dict[str, int]:
    return {name: number for name, number in sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])) if number}


def mean(rewards: Sequence[float]) -> float | None:
    return math.fsum(rewards) / len(rewards) if rewards else None


def in_parentheses(part: int, whole: int) -> str:
    return f" ({share(part, whole)})" if whole else ""
