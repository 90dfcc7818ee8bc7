"""What is found about a data set, from its rows piece by piece to the result as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import NotInstalled
from ..explain.reading import Step, steps_in
from ..explain.text import canons
from ..extras import in_this_shell
from ..files.row_tasks import score_rollouts
from ..records.rows import Place
from ..rewards.batch import Batch
from ..rewards.registry import SCORE
from ..rewards.scorer import Scorer, score
from .advice import Advice, advice_on
from .contradictions import Prompts
from .earnings import Earned, Earnings
from .findings import Finding, Rules, findings_of
from .gold import NO_ANSWER, GoldAnswers
from .near_duplicates import NearDuplicates, Pair
from .rows import CheckedRow

__all__ = ["DataSet"]


class DataSet:
    """Collects what `assay check` reports; `similarity` is None without several splits."""

    def __init__(self, scorer: Scorer, rules: Rules, sources: Sequence[str], similarity: float | None) -> None:
        self.scorer, self.rules, self.sources = scorer, rules, sources
        self.counts = {"checked": 0, "error": 0, "warning": 0}
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.warned: set[Place] = set()
        self.gold = GoldAnswers(scorer)
        self.pairs: list[Pair] = []
        self.contradictions: list[list[list[Place]]] = []
        self.no_duplicates = "There is only one split: name several files, or its field with --split-field."
        self._empty = Batch(configurations={"config": scorer.columns})
        self._earnings = Earnings(scorer)
        self._prompts = Prompts()
        self._duplicates: NearDuplicates | None = None
        if similarity is not None:
            try:
                self._duplicates = NearDuplicates(similarity)
                self.no_duplicates = ""
            except NotInstalled as error:
                self.no_duplicates = in_this_shell(error.advice[0].detail)

    def add(self, rows: Sequence[CheckedRow]) -> Iterator[Finding]:
        of_score = [row for row in rows if row.rollout.task == SCORE]
        scores = score_rollouts(score, self._empty, [row.rollout for row in of_score])
        valid = [row for row in of_score if row.rollout.fault is None]
        reasons = scores.reasons.tolist()
        self.counts["checked"] += len(rows)
        self.gold.add(valid, reasons)
        steps = [steps_in(row.rollout.reference) for row in valid]
        gold = np.where(np.isin(scores.reasons, NO_ANSWER), np.nan, scores.rewards)
        self._earnings.add(valid, steps, gold, scores.reasons == "ok")
        self._add_texts(valid, steps, ~np.isnan(gold))
        for finding in findings_of(rows, reasons, self.rules):
            yield self._counted(finding)

    def _add_texts(self, rows: Sequence[CheckedRow], steps: Sequence[Sequence[Step]], has_gold: np.ndarray) -> None:
        prompted = [k for k, row in enumerate(rows) if row.prompt is not None]
        prompts = canons([rows[k].prompt or "" for k in prompted])
        places = [rows[k].place for k in prompted]
        self._prompts.add(prompts, [steps[k] for k in prompted], places)
        if self._duplicates is not None:
            questions = canons([rows[k].question for k in prompted])
            self._duplicates.add("prompt", questions, [rows[k].split for k in prompted], places)
            texts = canons(
                [
                    row.rollout.response if whole else " ".join(step.listed for step in row_steps)
                    for row, row_steps, whole in zip(rows, steps, has_gold, strict=True)
                ]
            )
            self._duplicates.add("reference", texts, [row.split for row in rows], [row.place for row in rows])

    def finish(self) -> Iterator[Finding]:
        self.contradictions = self._prompts.contradictions()
        for contradiction in self.contradictions:
            (first, *_), *others = contradiction
            for places in others:
                detail = f"the prompt is that of {first}, whose reference has other steps"
                for place in places:
                    yield self._counted(Finding(place, "warning", "contradictory_reference", detail))
        if self._duplicates is not None:
            self.pairs = sorted(self._duplicates.pairs(), key=lambda pair: -pair.similarity)
        named: set[tuple[Place, str]] = set()
        for pair in self.pairs:  # the most similar first: a row is named with that one only
            detail = f"the {pair.of} is {pair.similarity:.2f} similar to that of {pair.first[0]}, in another split"
            for place in pair.second:
                if (place, pair.of) not in named:
                    named.add((place, pair.of))
                    yield self._counted(Finding(place, "warning", "near_duplicate", detail))

    def _counted(self, finding: Finding) -> Finding:
        self.counts[finding.kind] += 1
        self.reasons[finding.kind, finding.reason] += 1
        if finding.kind == "warning":
            self.warned.add(finding.place)
        return finding

    @property
    def splits(self) -> list[str]:
        return [] if self._duplicates is None else self._duplicates.splits

    def policies(self) -> list[Earned]:
        """Return what the gold answers earn, and then every policy."""
        return list(self._earnings.rows())

    def advice(self) -> list[Advice]:
        return advice_on(self.gold, self.policies(), self.scorer.settings)

    def document(self, findings: Sequence[Finding]) -> dict[str, Any]:
        duplicates: dict[str, Any] = {"unavailable": self.no_duplicates}
        if self._duplicates is not None:
            duplicates = {
                "similarity": self._duplicates.similarity,
                "recall": self._duplicates.recall,
                "splits": self.splits,
                "pairs": [pair.document() for pair in self.pairs],
            }
        return {
            "sources": list(self.sources),
            **self.scorer.identity,
            "checked": self.counts["checked"],
            "invalid": self.counts["error"],
            "warnings": self.counts["warning"],
            "gold": self.gold.document(),
            "policies": [earned.document() for earned in self.policies()],
            "advice": [advice._asdict() for advice in self.advice()],
            "contradictions": [
                [[place.document() for place in places] for places in rows] for rows in self.contradictions
            ],
            "near_duplicates": duplicates,
            "findings": [finding.document() for finding in findings],
        }
