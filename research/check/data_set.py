"""The check of a data set: findings on rows, figures of all rows, and advice that follows from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np

from ...service.errors import NotInstalled
from ...service.explain.prose import added_in, coverages
from ...service.explain.quantities import quantity_limits
from ...service.explain.reading import ReadStep, Text, canons, read_response, steps_in
from ...service.records.jobs.row_tasks import score_rollouts
from ...service.records.rows.rows import RowPlace
from ...service.rewards.batch import Batch
from ...service.rewards.registry import SCORE
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import NO_SPREAD
from ...service.rewards.scoring import score
from ...service.scoring.texts import utf8
from ...service.settings import ScoreSettings
from ...service.tasks.scirecipe_records import actions_of, library_of, violations
from ...service.tasks.thoth import key_block
from ...service.wording import first_n, fixed, format_number, in_this_shell, plural
from .discrimination import Discrimination
from .gold import ALL, NO_ANSWER, PAPER, GoldAnswers, GoldPrompts, Option, options_of
from .near_duplicates import DuplicatePair, NearDuplicates
from .policies import Earned, Earnings
from .rows import CheckedRow, each_alternative

MAX_WORDS = 4  # words that a finding names


class RowFinding(NamedTuple):
    """One finding on a row: an `error` (its reference is invalid) or a `warning`, its reason and a sentence."""

    place: RowPlace
    kind: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.detail} ({self.reason})"

    def document(self) -> dict[str, Any]:
        return {**self.place.document(), "kind": self.kind, "reason": self.reason, "detail": self.detail}


class RecordRules(NamedTuple):
    scirecipe: bool | None
    reference_field: str | None
    response_field: str | None

    def broken_by(self, row: CheckedRow, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
        in_field = self.reference_field in record or row.alternative is not None
        checked = {**record, "reference": row.reference} if in_field else record
        published = isinstance(record.get("key"), str) and "orc" in record
        requested = published if self.scirecipe is None else self.scirecipe
        for violation in violations(checked):
            if requested or violation.rule == "library":
                yield violation
        library, answer = library_of(record), record.get(self.response_field or "")
        if library is not None and isinstance(answer, str):
            allowed = {action.lower() for action in library}
            used = actions_of(key_block(answer))
            needed = set(actions_of(key_block(row.rollout.response)))
            outside = sum(action not in allowed for action in used)
            distractors = sum(action in allowed and action not in needed for action in used)
            if outside:
                yield "outside_library", f"the answer uses {outside} actions that are not in the row's library"
            if distractors:
                yield "distractors", f"the answer uses {distractors} actions of the library that the reference does not"


def findings_of(rows: Iterable[CheckedRow], rules: RecordRules) -> Iterator[RowFinding]:
    """Yield the findings on rows, in their order; a reference with alternatives is a row for each."""
    for row in rows:
        if row.rollout.fault is not None:
            if not row.alternative:
                yield RowFinding(row.place, "error", *row.rollout.fault)
            continue
        about = "" if row.alternative is None else f"any_of[{row.alternative}]: "
        broken = rules.broken_by(row, row.record) if row.record is not None else ()
        for reason, sentence in (*row.warnings, *broken):
            yield RowFinding(row.place, "warning", reason, about + sentence)


def add_quantity_limits(rows: Sequence[CheckedRow], steps: Sequence[Sequence[ReadStep]]) -> None:
    """Warn of parameters that are not read as the quantity that their author means."""
    for row, row_steps in zip(rows, steps, strict=True):
        for number, step in enumerate(row_steps, 1):
            limits = chain.from_iterable(map(quantity_limits, step.parameters))
            row.warnings += [("quantity_limit", f"step {number}: {sentence}") for sentence in limits]


def fault_of_prose(answer: str, option: Option, settings: ScoreSettings) -> str:
    """Return which words close a gate that an option closes: those of the first such step."""
    settings = settings.model_copy(update=option.overrides)
    reading = read_response(Text(utf8(answer)), settings.think_prefilled)
    words: Iterable[list[str]] = ()
    if option.reason == "low_coverage":
        words = (step.uncovered if step and not step.enough else [] for step in coverages(reading, settings))
    elif option.reason:
        limit = settings.max_added_words
        added = [own for own in added_in(reading, settings) if own is not None]
        words = (own.numbers or (own.words or [] if own.fails(limit) else []) for own in added)
    verb = "leaves out" if option.reason == "low_coverage" else "adds"
    first = next(((number, step_words) for number, step_words in enumerate(words, 1) if step_words), None)
    return f": step {first[0]} {verb} {first_n(first[1], MAX_WORDS)}" if first else ""


class Advice(NamedTuple):
    text: str
    good: bool


def advice_on(gold: GoldAnswers, policies: Sequence[Earned], settings: ScoreSettings) -> list[Advice]:
    if not gold.number:
        return [
            Advice("No reference is a complete answer, so gates and policies have nothing to be compared with.", True)
        ]
    advice = [*on_gates(gold, settings), *on_options(gold, settings)]
    beating = [earned for earned in policies if earned.beats_gold]
    advice += [Advice(text, False) for text in on_policies(beating)]
    if beating:
        advice += on_gold_rewards(gold, policies[0].rewards.mean or 0.0, beating)
    equal = [earned.policy.title for earned in policies if earned.equals_gold]
    if equal:
        advice.append(Advice(f"As good as the gold answers: {', '.join(equal)}.", True))
    elif not beating:
        advice.append(Advice("No trivial policy earns as much as the gold answers.", True))
    return advice


def on_gates(gold: GoldAnswers, settings: ScoreSettings) -> Iterator[Advice]:
    if not gold.failed:
        all_pass = "The gold answer passes" if gold.number == 1 else f"All {gold.number:,} gold answers pass"
        yield Advice(f"{all_pass} both gates.", True)
    else:
        yield Advice(
            f"{gold.failed:,} of {plural(gold.number, 'gold answer')} fail a gate.{on_coverage(gold, settings)}", False
        )
    if gold.penalized:
        yield Advice(
            f"{plural(gold.penalized, 'gold answer')} have more words a prose step than max_mean_words "
            f"({format_number(settings.max_mean_words)}), which lowers their reward: none has with "
            f"max_mean_words={math.ceil(gold.longest)}; length_penalty=relative costs less than absolute.",
            False,
        )


def on_options(gold: GoldAnswers, settings: ScoreSettings) -> Iterator[Advice]:
    for option in single_options(settings):
        changed, lower = gold.changed[option.name], gold.lower[option.name]
        which = f"{changed:,} of {plural(gold.number, 'gold answer')}" if changed else "no gold answer"
        less = f"; {lower:,} of them earn less" if lower else ""
        yield Advice(f"{option.changes} changes the reward of {which}{less}.", not lower)


def single_options(settings: ScoreSettings) -> list[Option]:
    return [option for option in options_of(settings) if option.name not in (PAPER, ALL)]


def on_coverage(gold: GoldAnswers, settings: ScoreSettings) -> str:
    other = gold.number - gold.covered
    text = f" {other:,} of them fail for a reason other than coverage: correct these records." if other else ""
    if not gold.reasons["low_coverage"]:
        return text
    suggested = gold.suggested()
    if suggested is None:
        return f"{text} No min_coverage down to 0.5 lets enough of them pass: correct their prose."
    if suggested.min_coverage >= settings.min_coverage:
        return f"{text} min_coverage can stay as it is; correct the prose of the others."
    return (
        f"{text} With min_coverage={format_number(suggested.min_coverage)}, {suggested.passed:,} pass; it also "
        "accepts prose that leaves out more words of its steps."
    )


def on_policies(beating: Sequence[Earned]) -> Iterator[str]:
    """Say once for all policies with the same remedy what keeps them from earning more than the gold answers."""
    for remedy in dict.fromkeys(earned.policy.remedy for earned in beating):
        alike = [earned for earned in beating if earned.policy.remedy == remedy]
        titles = ", ".join(earned.policy.title for earned in alike)
        most = max(earned.gold_difference or 0.0 for earned in alike)
        more = f"earns {most:.4f}" if len(alike) == 1 else f"earn up to {most:.4f}"
        yield f"{titles[0].upper()}{titles[1:]}: {more} more than the gold answers. {remedy}"


def on_gold_rewards(gold: GoldAnswers, gold_mean: float, beating: Sequence[Earned]) -> Iterator[Advice]:
    """Say once, for all policies that beat the gold answers, why these earn less than they could."""
    suggested = gold.suggested()
    if suggested is not None and suggested.mean_reward > gold_mean + NO_SPREAD:
        leads = {
            policy.policy.title: gold_mean + (policy.gold_difference or 0.0) - suggested.mean_reward
            for policy in beating
        }
        ahead = [f"{title} ({lead:.4f} more)" for title, lead in leads.items() if lead > NO_SPREAD]
        yield Advice(
            f"With min_coverage={format_number(suggested.min_coverage)}, the gold answers earn "
            f"{suggested.mean_reward:.4f} instead of {gold_mean:.4f}: "
            + (f"still less than {', '.join(ahead)}." if ahead else "no less than any of these policies."),
            False,
        )
    if gold.penalized:
        yield Advice("Part of these differences is the length penalty on gold answers.", False)


class DataSet:
    """Collects what `assay check` reports; `similarity` is None without several splits."""

    def __init__(
        self,
        scorer: Scorer,
        rules: RecordRules,
        sources: Sequence[str],
        similarity: float | None,
        discriminates: bool = False,
    ) -> None:
        self.scorer, self.rules, self.sources = scorer, rules, sources
        self.counts = {"checked": 0, "error": 0, "warning": 0}
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.warned: set[RowPlace] = set()
        self.gold = GoldAnswers(scorer)
        self.pairs: list[DuplicatePair] = []
        self.contradictions: list[list[list[RowPlace]]] = []
        self.no_duplicates = "There is only one split: name several files, or its field with --split-field."
        self.options = options_of(scorer.settings)
        scorers = {option.name: scorer.with_overrides(option.overrides).columns for option in self.options}
        self._empty = Batch(configurations={"config": scorer.columns} | scorers)
        self._earnings = Earnings(scorer, self.options)
        self.discrimination = Discrimination(scorer, self.options) if discriminates else None
        self._prompts = GoldPrompts()
        self._duplicates: NearDuplicates | None = None
        if similarity is not None:
            try:
                self._duplicates = NearDuplicates(similarity)
                self.no_duplicates = ""
            except NotInstalled as error:
                self.no_duplicates = in_this_shell(error.advice[0].detail)

    def add(self, rows: Sequence[CheckedRow]) -> Iterator[RowFinding]:
        self.counts["checked"] += len(rows)
        rows = list(each_alternative(rows))
        if self.discrimination is not None:
            self.discrimination.add(row for row in rows if row.rollout.fault is None)
        of_score = [row for row in rows if row.rollout.task == SCORE]
        scores = score_rollouts(score, self._empty, [row.rollout for row in of_score])
        valid = [row for row in of_score if row.rollout.fault is None]
        reasons = scores.reasons.tolist()
        self.gold.add(valid, reasons)
        steps = [steps_in(row.reference) for row in valid]
        no_answer = np.isin(scores.reasons, NO_ANSWER)
        gold, *others = [np.where(no_answer, np.nan, scored.rewards) for scored in (scores, *scores.configs)]
        by_option = {option.name: rewards for option, rewards in zip(self.options, others, strict=True)}
        self._earnings.add(valid, steps, gold, by_option, scores.reasons == "ok")
        self._add_texts(valid, steps, ~no_answer)
        for row, reason in zip(valid, reasons, strict=True):
            if reason not in ("ok", *NO_ANSWER):
                answer = "the record's own answer" if row.has_own_answer else "a response equal to this reference"
                row.warnings.append((reason, f"{answer} would fail a gate"))
        self._compare_options(valid, reasons, by_option)
        if self.scorer.settings.reads_quantities:
            add_quantity_limits(valid, steps)
        for finding in findings_of(rows, self.rules):
            yield self._counted(finding)

    def _compare_options(
        self, rows: Sequence[CheckedRow], reasons: Sequence[str], by_option: Mapping[str, np.ndarray]
    ) -> None:
        """Warn of rows whose gold answer earns less with an option, unless it fails for that reason anyway."""
        off = by_option[PAPER]
        for option in single_options(self.scorer.settings):
            rewards = by_option[option.name]
            for k in np.flatnonzero(self.gold.compare(option, off, rewards)).tolist():
                if reasons[k] != option.reason:
                    less, more = fixed(rewards[k]), fixed(off[k])
                    detail = f"with {option.changes}, the gold answer earns {less} instead of {more}"
                    detail += fault_of_prose(rows[k].rollout.response, option, self.scorer.settings)
                    rows[k].warnings.append((f"lower_with_{option.name}", detail))

    def _add_texts(self, rows: Sequence[CheckedRow], steps: Sequence[Sequence[ReadStep]], has_gold: np.ndarray) -> None:
        alternatives = [list(numbers) for _, numbers in groupby(range(len(rows)), lambda k: rows[k].place)]
        prompted = [numbers for numbers in alternatives if rows[numbers[0]].prompt is not None]
        places = [rows[k].place for k, *_ in prompted]
        prompts = canons([rows[k].prompt or "" for k, *_ in prompted])
        self._prompts.add(prompts, [[steps[k] for k in numbers] for numbers in prompted], places)
        if self._duplicates is not None:
            questions = canons([rows[k].question for k, *_ in prompted])
            self._duplicates.add("prompt", questions, [rows[k].split for k, *_ in prompted], places)
            texts = [
                row.rollout.response if whole else " ".join(step.listed for step in row_steps)
                for row, row_steps, whole in zip(rows, steps, has_gold, strict=True)
            ]
            whole_texts = canons(["\n".join(texts[k] for k in numbers) for numbers in alternatives])
            firsts = [rows[k] for k, *_ in alternatives]
            self._duplicates.add("reference", whole_texts, [row.split for row in firsts], [row.place for row in firsts])

    def finish(self) -> Iterator[RowFinding]:
        self.contradictions = self._prompts.contradictions()
        for contradiction in self.contradictions:
            (first, *_), *differing = contradiction
            for places in differing:
                detail = f"the prompt is that of {first}, whose reference has other steps"
                for place in places:
                    yield self._counted(RowFinding(place, "warning", "contradictory_reference", detail))
        if self._duplicates is not None:
            self.pairs = sorted(self._duplicates.pairs(), key=lambda pair: -pair.similarity)
        named: set[tuple[RowPlace, str]] = set()
        for pair in self.pairs:  # the most similar first: a row is named with that one only
            detail = f"the {pair.of} is {pair.similarity:.2f} similar to that of {pair.first[0]}, in another split"
            for place in pair.second:
                if (place, pair.of) not in named:
                    named.add((place, pair.of))
                    yield self._counted(RowFinding(place, "warning", "near_duplicate", detail))

    def _counted(self, finding: RowFinding) -> RowFinding:
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

    def document(self, findings: Sequence[RowFinding]) -> dict[str, Any]:
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
            "options": {option.name: option.overrides for option in self.options},
            "policies": [earned.document() for earned in self.policies()],
            "advice": [advice._asdict() for advice in self.advice()],
            "contradictions": [
                [[place.document() for place in places] for places in rows] for rows in self.contradictions
            ],
            "near_duplicates": duplicates,
            "discrimination": None if self.discrimination is None else self.discrimination.document(),
            "findings": [finding.document() for finding in findings],
        }
