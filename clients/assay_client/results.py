"""Results of scoring: columns for a batch, one row for a single response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import repeat
from typing import NamedTuple

from .tasks import REWARD_TASKS, SCORE, TASK_REASONS, has_passed

__all__ = ["Score", "Scores", "scores_of"]


class Score(NamedTuple):
    """The finite reward of one response, with its reason and components."""

    reward: float
    reason: str
    """`ok`, or why the response could not be scored."""
    components: Mapping[str, float]
    config_id: str
    """Digest of the configuration and the version of the scoring rules."""
    signature: str = ""
    """The same in one readable line, to be quoted beside the reward; empty if the service is of a version before it."""
    task: str = SCORE

    @property
    def reason_code(self) -> int:
        """Index in the task's `TASK_REASONS`; -1 for a reason unknown to this version of the client."""
        return reason_code(self.task, self.reason)

    @property
    def task_code(self) -> int:
        """Index in `REWARD_TASKS`."""
        return REWARD_TASKS.index(self.task)

    @property
    def passed(self) -> float:
        """1 if the response passes: in SCORE both gates, with the right order of actions; else 0."""
        return has_passed(self.task, self.components)


@dataclass(frozen=True)
class Scores:
    """Columns with one finite entry per response, in the order of the responses."""

    rewards: list[float]
    reasons: list[str]
    components: dict[str, list[float]] | None
    """By name; None unless requested."""
    advantages: list[float] | None
    """Group advantages; None unless requested."""
    config_id: str
    request_id: str
    _: KW_ONLY
    signature: str = ""
    """The configuration in one readable line, to be quoted beside the rewards."""
    tasks: list[str] = field(default_factory=list)
    """The task of each response; all of them SCORE if left out."""

    def __post_init__(self) -> None:
        if not self.tasks:
            object.__setattr__(self, "tasks", [SCORE] * len(self.rewards))

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        if not self.rewards:
            return "Scores(0 responses)"
        reasons = ", ".join(f"{reason} {n}" for reason, n in Counter(self.reasons).most_common())
        return f"Scores({len(self)} responses, mean reward {sum(self.rewards) / len(self):.4f}; {reasons})"

    @property
    def reason_codes(self) -> list[int]:
        """Index of each reason in the `TASK_REASONS` of its task; -1 for one unknown to this version of the client."""
        return [reason_code(task, reason) for task, reason in zip(self.tasks, self.reasons, strict=True)]

    @property
    def task_codes(self) -> list[int]:
        """Index of each task in `REWARD_TASKS`."""
        return list(map(REWARD_TASKS.index, self.tasks))

    @property
    def passed(self) -> list[float]:
        """1 for each response that passes, else 0 (see `Score.passed`); raise ValueError without components."""
        if self.components is None:
            raise ValueError('`passed` is computed from the components: include="components"')
        return [row.passed for row in self.rows()]

    def row(self, k: int) -> Score:
        """Return the score of response `k`."""
        components = {name: column[k] for name, column in (self.components or {}).items()}
        return Score(self.rewards[k], self.reasons[k], components, self.config_id, self.signature, self.tasks[k])

    def rows(self) -> Iterator[Score]:
        """Yield the score of every response: faster than `row` for each."""
        names, columns = tuple(self.components or ()), tuple((self.components or {}).values())
        numbers: Iterator[tuple[float, ...]] = zip(*columns, strict=True) if columns else repeat(())
        for reward, reason, task, values in zip(self.rewards, self.reasons, self.tasks, numbers, strict=False):
            components = dict(zip(names, values, strict=True))
            yield Score(reward, reason, components, self.config_id, self.signature, task)


def scores_of(rows: Sequence[Score]) -> Scores:
    """Return the columns of scores from one request or several; a component that one of them lacks is 0."""
    names = dict.fromkeys(name for row in rows for name in row.components)
    components = {name: [row.components.get(name, 0.0) for row in rows] for name in names}
    columns = [row.reward for row in rows], [row.reason for row in rows], components
    config_id, signature = (rows[0].config_id, rows[0].signature) if rows else ("", "")
    return Scores(*columns, None, config_id, "", signature=signature, tasks=[row.task for row in rows])


def reason_code(task: str, reason: str) -> int:
    reasons = TASK_REASONS[task]
    return reasons.index(reason) if reason in reasons else -1
