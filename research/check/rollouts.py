"""`assay check --rollouts`: how a run changes from its first rollouts to its last, for signs of reward hacking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...service.records.rows.rows import Rollout, RowPlace, value_digest
from ...service.rewards.batch import Batch
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import Scores, is_cut_off, spread_of
from ...service.scoring.texts import utf8
from ...service.settings import ScoreSettings
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
STALLED, ROSE = 0.01, 0.05
"""Rise of a mean up to which it stalls, and from which on it rises."""


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

    def add(self, source: str, rollouts: Sequence[Rollout], steps: Sequence[float], scores: Scores) -> None:
        """Add rollouts without a fault, with the number of the step of each."""
        strict, doses = scores.configs
        groups = [(step, value_digest(rollout.group)) for step, rollout in zip(steps, rollouts, strict=True)]
        components = scores.components
        texts = [utf8(rollout.response) for rollout in rollouts]
        passed = scores.reasons == "ok"
        self._pieces.append(
            {
                "step": np.array(steps, float),
                "group": np.array([self._groups.setdefault(group, len(self._groups)) for group in groups], np.int64),
                "reward": scores.rewards,
                "strict_reward": strict.rewards,
                "passed": passed.astype(float),
                "cut_off": np.array(list(map(is_cut_off, scores.reason_codes.tolist(), texts)), float),
                "added_numbers": (passed & (strict.reasons == "added_numbers")).astype(float),
                "added_words": (passed & (strict.reasons == "added_words")).astype(float),
                "bytes": np.array(list(map(len, texts)), float),
                "errors": components["quantity_errors"],
                "quantity_errors": np.where(passed, doses.components["quantity_errors"], np.nan),
                **{name: np.where(passed, components[name], np.nan) for name in (*GAINING, "mean_words")},
            }
        )
        self._places += [RowPlace(source, rollout.location) for rollout in rollouts]

    def __len__(self) -> int:
        return len(self._places)

    def columns(self) -> dict[str, np.ndarray]:
        """Return every measure of the rollouts, float64 (n,), in the order in which they were read."""
        names = self._pieces[0]
        self._pieces = [{name: np.concatenate([piece[name] for piece in self._pieces]) for name in names}]
        return self._pieces[0]

    def parts(self) -> list[dict[str, float]]:
        """Return the means of at most PARTS consecutive parts of the run; NaN of what no response of a part has."""
        columns = self.columns()
        order = np.argsort(columns["step"], kind="stable")
        _, firsts, groups = np.unique(columns["group"][order], return_index=True, return_inverse=True)
        places = np.argsort(np.argsort(firsts))  # a part has whole groups, in the order of their first rollouts
        bins = places[groups] * min(PARTS, len(firsts)) // len(firsts)
        return [self._means(columns, order[bins == number]) for number in np.unique(bins).tolist()]

    def _means(self, columns: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, float]:
        rows = rows[np.argsort(columns["group"][rows], kind="stable")]
        starts = np.flatnonzero(np.diff(columns["group"][rows], prepend=-1))
        spread = spread_of(columns["reward"][rows], np.append(starts, len(rows)))
        several = spread.sizes > 1
        means = {"step": columns["step"][rows].min(), "responses": len(rows)}
        means |= {"group_std": mean(spread.deviations[several]), "flat_groups": mean(spread.flat[several])}
        means |= {name: mean(values[rows]) for name, values in columns.items() if name not in ("step", "group")}
        return {name: float(value) for name, value in means.items() if name != "errors"}

    def findings(self) -> Iterator[str]:
        """Yield what changed from the first part of the run to the last as it does in a run that games its reward."""
        parts = self.parts()
        first, last = parts[0], parts[-1]
        rise = {name: last[name] - first[name] for name in first}

        def changed(name: str) -> str:
            return f"{name} {fixed(first[name])} → {fixed(last[name])}"

        maxima = {"scale": 1.0, "order": 1.0, "content": 1.5}
        for name in GAINING:
            others = [other for other in GAINING if other != name and first[other] < 0.95 * maxima[other]]
            if rise[name] >= ROSE and others and all(rise[other] <= STALLED for other in others):
                yield f"Only one component rises: {changed(name)}; {', '.join(map(changed, others))}."
        if rise["reward"] >= ROSE and rise["strict_reward"] <= STALLED:
            yield f"The reward rises, but not with every option on: {changed('reward')}; {changed('strict_reward')}."
        if rise["bytes"] > 0 and last["bytes"] >= 1.5 * first["bytes"] and rise["reward"] <= STALLED:
            yield f"Responses grow, the reward does not: {changed('bytes')}; {changed('reward')}."
        for name, least in RISES.items():
            if rise[name] >= least:
                yield f"{name} rises: {changed(name)}."

    def gains(self) -> list[tuple[float, str, int]]:
        """Return the TOP largest gains: how much SCORE lies above SCORE with one component at its group's mean.

        The mean is over the responses of the group that pass the gates.
        """
        columns = self.columns()
        rows = np.flatnonzero(columns["passed"])
        values = {name: columns[name][rows] for name in GAINING} | {"quantity_errors": columns["errors"][rows]}
        groups = columns["group"][rows]
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
            digits = 0 if name in ("step", "responses", "bytes") else 4
            rows.append([name, *(NOTHING if np.isnan(part[name]) else fixed(part[name], digits) for part in parts)])
        heads = ["", *(f"part {number}" for number in range(1, len(parts) + 1))]
        gains = [[str(self._places[row]), name, fixed(gain)] for gain, name, row in self.gains()]
        return [
            Table(heads, rows, title="The run", notes=list(self.findings())),
            Table(["rollout", "component", "gain"], gains, left=2, title="Largest gains from one component"),
        ]

    def document(self) -> dict[str, Any]:
        """Return the same for JSON; NaN is null there."""
        gains = [{**self._places[row].document(), "component": name, "gain": gain} for gain, name, row in self.gains()]
        return {"parts": self.parts(), "findings": list(self.findings()), "gains": gains}


def mean(values: np.ndarray) -> float:
    """Return the mean of the values that are not NaN, or NaN."""
    values = values[~np.isnan(values.astype(float))]
    return float(values.mean()) if len(values) else float("nan")
