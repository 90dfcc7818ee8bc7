"""`assay check --rollouts`: how a run changes from its first rollouts to its last, for signs of reward hacking."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...service.records.jobs.row_tasks import RowTasks, read_rollout, score_rollouts
from ...service.records.rows.forms import unfolded
from ...service.records.rows.rows import Fields, Record, Rollout, RowPlace, value_digest
from ...service.rewards.batch import Batch
from ...service.rewards.registry import SCORE
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import Scores, is_cut_off, spread_of
from ...service.rewards.scoring import score
from ...service.scoring.texts import utf8
from ...service.settings import ScoreSettings
from ...service.tables.page import Chart, trend
from ...service.tables.table import Row, Table
from ...service.wording import NOTHING, fixed
from .gold import ALL, options_of

PARTS = 5
"""Consecutive parts of a run that are compared, the first with the last."""
TOP = 10
GAINING = ("scale", "order", "content")
"""Components whose gain is listed; the gain of wrong quantities is never above that of an honest answer."""

RISES = {"flat_groups": 0.2, "cut_off": 0.05, "added_numbers": 0.05, "added_words": 0.05, "quantity_errors": 0.5}
"""Measures that rise in a run that goes wrong, each with the rise from the first part to the last that is reported."""
COUNTS = ("step", "responses")
"""What stands above the measures of a part: its first step, and how many responses it has."""
STALLED, ROSE = 0.01, 0.05
"""Rise of a mean up to which it stalls, and from which on it rises."""
ERRORS = 2.0
"""Standard errors that a rise must exceed, so that it is hardly chance."""
NO_FINDING = "No sign is above its threshold and above two standard errors between groups."
MAX_STEPS = 300
"""Points of a chart; of more steps, neighbours share one."""


class Mean(NamedTuple):
    value: float
    error: float
    """The standard error between groups, as the rewards of a group are not independent; NaN for less than two."""

    @classmethod
    def of(cls, values: np.ndarray, starts: np.ndarray) -> Mean:
        """Return the mean of the values that are not NaN, or NaN; each of `starts` begins a group."""
        known = ~np.isnan(values)
        n, groups = known.sum(), np.logical_or.reduceat(known, starts).sum() if len(starts) else 0
        if not n:
            return cls(np.nan, np.nan)
        value = float(values[known].mean())
        sums = np.add.reduceat(np.where(known, values - value, 0.0), starts)
        return cls(value, math.sqrt((sums**2).sum() * groups / (groups - 1)) / n if groups > 1 else np.nan)


Means = dict[str, Mean]


def score_of(settings: ScoreSettings, values: dict[str, np.ndarray]) -> np.ndarray:
    """Return SCORE of passing responses from scale, order, content and quantity_errors (docs/rules.md)."""
    order, content = values["order"], values["content"]
    both = order * content if settings.semantics == "product" else order + content
    semantics = both if settings.use_order else content
    whole = values["scale"] + semantics if settings.total == "sum" else values["scale"] * semantics
    return np.asarray(whole * settings.quantity_error_factor ** values["quantity_errors"])


class Run:
    """Collects the rollouts of a run, about 200 bytes each. A group is the rollouts of one prompt at one step."""

    def __init__(self, scorer: Scorer) -> None:
        self.settings = scorer.settings
        options = {option.name: option for option in options_of(scorer.settings)}
        names = ALL, "quantity_errors"
        others = {name: scorer.with_overrides(options[name].overrides).columns for name in names}
        self.batch = Batch(configurations={"config": scorer.columns} | others)
        self._pieces: list[dict[str, np.ndarray]] = []
        self._groups: dict[tuple[float, bytes], int] = {}
        self._places: list[RowPlace] = []

    def add(
        self, source: str, records: Sequence[Record], tasks: RowTasks, fields: Fields, number: int
    ) -> Sequence[Rollout]:
        """Score the rows of SCORE and add them; return them, also those with a fault, which are left out.

        number: the step of rows that do not name one.
        """
        rows = [unfolded(record.value) if isinstance(record.value, dict) else {} for record in records]
        chosen = [k for k, row in enumerate(rows) if tasks.named_by(row)[0] == SCORE]
        rollouts = [read_rollout(records[k], rows[k], tasks, fields) for k in chosen]
        scores = score_rollouts(score, self.batch, rollouts)
        valid = [(k, rollout) for k, rollout in zip(chosen, rollouts, strict=True) if rollout.fault is None]
        steps = [step_of(rows[k], number) for k, _ in valid]
        self._add(source, [rollout for _, rollout in valid], steps, scores)
        return rollouts

    def _add(self, source: str, rollouts: Sequence[Rollout], steps: Sequence[float], scores: Scores) -> None:
        strict, doses = scores.configs
        groups = [(step, value_digest(rollout.group)) for step, rollout in zip(steps, rollouts, strict=True)]
        texts = [utf8(rollout.response) for rollout in rollouts]
        cut_off = map(is_cut_off, scores.reason_codes.tolist(), texts)
        components, passed = scores.components, scores.reasons == "ok"
        columns = {
            "step": steps,
            "group": [self._groups.setdefault(group, len(self._groups)) for group in groups],
            "reward": scores.rewards,
            "strict_reward": strict.rewards,
            "passed": passed,
            "cut_off": list(cut_off),
            "added_numbers": passed & (strict.reasons == "added_numbers"),
            "added_words": passed & (strict.reasons == "added_words"),
            "bytes": list(map(len, texts)),
            "errors": components["quantity_errors"],
            "quantity_errors": np.where(passed, doses.components["quantity_errors"], np.nan),
            **{name: np.where(passed, components[name], np.nan) for name in (*GAINING, "mean_words")},
        }
        self._pieces.append({name: np.array(column, float) for name, column in columns.items()})
        self._places += [RowPlace(source, rollout.location) for rollout in rollouts]

    def __len__(self) -> int:
        return len(self._places)

    def columns(self) -> dict[str, np.ndarray]:
        """Return every measure of the rollouts, float64 (n,), in the order in which they were read."""
        names = self._pieces[0]
        self._pieces = [{name: np.concatenate([piece[name] for piece in self._pieces]) for name in names}]
        return self._pieces[0]

    def parts(self) -> list[Means]:
        """Return the means of at most PARTS parts of whole groups; NaN of what no response of a part has."""
        return self._means("group", PARTS)

    def _means(self, unit: str, most: int) -> list[Means]:
        """Return the means of at most `most` parts of as many steps or groups, in the order of the steps."""
        columns = self.columns()
        rows = np.lexsort((columns["group"], columns["step"]))
        numbers = np.cumsum(np.diff(columns[unit][rows], prepend=-np.inf) != 0) - 1
        bins = numbers * min(most, numbers[-1] + 1) // (numbers[-1] + 1)
        parts = np.split(rows, np.flatnonzero(np.diff(bins)) + 1)
        return [means_of({name: column[part] for name, column in columns.items()}) for part in parts]

    def findings(self) -> Iterator[str]:
        """Yield what changed from the first part of the run to the last as it does in a run that games its reward."""
        parts = self.parts()
        first, last = parts[0], parts[-1]
        rise = {name: last[name].value - first[name].value for name in first}
        chance = {name: ERRORS * math.hypot(first[name].error, last[name].error) for name in first}

        def has_risen(name: str, least: float) -> bool:
            return rise[name] >= least and rise[name] > chance[name]

        def stalls(name: str, beside: str) -> bool:
            is_less = rise[beside] - rise[name] > math.hypot(chance[beside], chance[name])
            return rise[name] <= STALLED or (is_less and rise[name] <= min(chance[name], ROSE))

        def changed(name: str) -> str:
            return f"{name} {fixed(first[name].value)} → {fixed(last[name].value)}"

        maxima = {"scale": 1.0, "order": 1.0, "content": 1.5}
        for name in GAINING:
            others = [other for other in GAINING if other != name and first[other].value < 0.95 * maxima[other]]
            if has_risen(name, ROSE) and others and all(stalls(other, name) for other in others):
                yield f"Only one component rises: {changed(name)}; {', '.join(map(changed, others))}."
        if has_risen("reward", ROSE) and stalls("strict_reward", "reward"):
            yield f"The reward rises, but not with every option on: {changed('reward')}; {changed('strict_reward')}."
        if has_risen("bytes", 0.5 * first["bytes"].value) and stalls("reward", "bytes"):
            yield f"Responses grow, the reward does not: {changed('bytes')}; {changed('reward')}."
        for name, least in RISES.items():
            if has_risen(name, least):
                yield f"{name} rises: {changed(name)}."

    def gains(self) -> list[tuple[float, str, int]]:
        """Return the TOP largest gains: how much SCORE lies above SCORE with one component at its group's mean.

        The mean is over the responses of the group that pass the gates.
        """
        columns = self.columns()
        rows = np.flatnonzero(columns["passed"])
        values = {name: columns[name][rows] for name in GAINING} | {"quantity_errors": columns["errors"][rows]}
        groups = columns["group"][rows].astype(np.int64)
        sizes, scores = np.maximum(np.bincount(groups), 1), score_of(self.settings, values)
        gains: list[tuple[float, str, int]] = []
        for name in GAINING:
            means = (np.bincount(groups, values[name]) / sizes)[groups]
            gain = scores - score_of(self.settings, values | {name: means})
            gains += [(float(gain[k]), name, int(rows[k])) for k in np.argsort(-gain, kind="stable")[:TOP]]
        return sorted((entry for entry in gains if entry[0] > 1e-9), key=lambda entry: (-entry[0], entry[2]))[:TOP]

    def tables(self) -> list[Table]:
        parts = self.parts()
        rows: list[Row] = []
        for name in parts[0]:
            digits = 0 if name in (*COUNTS, "bytes") else 4
            values = [part[name].value for part in parts]
            rows.append([name, *(NOTHING if np.isnan(value) else fixed(value, digits) for value in values)])
        heads = ["", *(f"part {number}" for number in range(1, len(parts) + 1))]
        gains = [[str(self._places[row]), name, fixed(gain)] for gain, name, row in self.gains()]
        return [
            Table(heads, rows, title="The run", notes=list(self.findings()) or [NO_FINDING]),
            Table(["rollout", "component", "gain"], gains, left=2, title="Largest gains from one component"),
        ]

    def charts(self) -> list[Chart]:
        """Return the mean of each measure over the steps; none for a run with one step."""
        means = self._means("step", MAX_STEPS)
        steps = np.array([each["step"].value for each in means])
        drawn = {name: np.array([each[name].value for each in means]) for name in means[0] if name not in COUNTS}
        return [trend(steps, values, name) for name, values in drawn.items() if (~np.isnan(values)).sum() > 1]

    def document(self) -> dict[str, Any]:
        """Return the same for JSON; NaN is null there."""
        gains = [{**self._places[row].document(), "component": name, "gain": gain} for gain, name, row in self.gains()]
        parts = [{name: mean.value for name, mean in means.items()} for means in self.parts()]
        return {"parts": parts, "findings": list(self.findings()), "gains": gains}


def step_of(row: Mapping[str, Any], otherwise: int) -> float:
    """Return the number of a row's step, which is a float in a Parquet column that has a null."""
    step: Any = row.get("step")
    is_number = isinstance(step, int | float) and not isinstance(step, bool) and math.isfinite(step)
    return float(step) if is_number else otherwise


def means_of(columns: dict[str, np.ndarray]) -> Means:
    """Return the mean of each measure of rollouts in the order of their groups, and of the spread within these."""
    starts = np.flatnonzero(np.diff(columns["group"], prepend=-1))
    spread = spread_of(columns["reward"], np.append(starts, len(columns["group"])))
    several = spread.sizes > 1
    of_groups = {"group_std": spread.deviations[several], "flat_groups": spread.flat[several].astype(float)}
    single = np.arange(several.sum())
    counts = columns["step"].min(), len(columns["step"])
    means = {name: Mean(float(count), np.nan) for name, count in zip(COUNTS, counts, strict=True)}
    means |= {name: Mean.of(values, single) for name, values in of_groups.items()}
    return means | {name: Mean.of(columns[name], starts) for name in columns if name not in ("step", "group", "errors")}
