"""The report on a scored file as one self-contained HTML page, with its verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...service.errors import ScoringError
from ...service.explain.explanation import explain
from ...service.explain.quantities import texts_of
from ...service.explain.schema import Explanation, KeyStep, Pair, Phrase, Similarity
from ...service.records.jobs.summary import QUANTILES, quantiles
from ...service.records.output.output_file import write_document
from ...service.rewards.scorer import Scorer
from ...service.scoring.references import alternatives_of
from ...service.settings import MAX_CONTENT, ScoreSettings
from ...service.tables.page import Chart, histogram, render, scatter, ticks
from ...service.tables.table import Cell, Row, Table
from ...service.wording import NOTHING, clipped, fixed, plural, share
from .inference import FEW
from .statistics import COMPONENTS, SIGNS, RewardGroups, RewardStatistics, RolloutExample, correlation

REMEDIES = {
    "too_long": "Limit the length of responses, or raise max_response_bytes and max_steps.",
    "think_not_opened": "The chat template probably ends the prompt with <think>: set think_prefilled.",
    "missing_sections": "Show the four sections <think>, <key>, <orc> and <note> in the prompt, in this order.",
    "no_steps": "Ask for one line “Step N: {…}” in <key> for each step.",
    "bad_step_line": "Ask for only lines of the form “Step N: {…}” in <key>.",
    "bad_step_json": "Show a key step in the prompt: what follows “Step N:” must be one JSON object.",
    "bad_step_schema": "Show a key step in the prompt: it has an action, a list of objects and a list of parameters.",
    "key_numbering": "Ask for key steps that are numbered 1, 2, 3, …",
    "orc_numbering": "Ask for prose steps that are numbered 1, 2, 3, …",
    "step_count": "Ask for one prose step in <orc> for each key step.",
    "low_coverage": "Ask for prose that names every action, object and parameter of its key step in the same words; "
    "min_coverage is the share required.",
    "added_numbers": "Ask for prose whose numbers are all in its key step; max_added_numbers allows more.",
    "added_words": "Ask for prose without negations and in the words of its key step; max_added_words allows more.",
}

MAIN_SHARE = 0.25  # of the failed responses, for the second reason to be named, if not tied with the third
MIN_CORRELATED = 30
STRONG = 0.5  # responses and correlation from which on the verdict mentions that longer responses earn more


class ReportFinding(NamedTuple):
    """One sentence on the run, the section of the report with the details, and what to do."""

    text: str
    section: str
    advice: Sequence[str] = ()
    good: bool = False


def verdict(stats: RewardStatistics, faults: Mapping[str, int]) -> list[ReportFinding]:
    number = stats.reasons.total()
    not_scored = [_faults(faults)] if faults else []
    if not number:
        return [*not_scored, ReportFinding("No response was scored.", "reasons")]
    return [_gates(stats, number), *not_scored, _groups(stats), _rewards(stats), *_hacking(stats), *_length(stats)]


def remedies(stats: RewardStatistics) -> dict[str, str]:
    by_reason = {reason: REMEDIES.get(reason, "") for reason in stats.reasons}
    if cut := stats.truncated:
        which = "All of them" if cut == stats.reasons["missing_sections"] else f"{cut:,} of them"
        by_reason["missing_sections"] = f"{which} stop before the last tag: raise the maximum number of new tokens."
    return by_reason


def _gates(stats: RewardStatistics, number: int) -> ReportFinding:
    failed = number - stats.reasons["ok"]
    if not failed:
        text = f"All {number:,} responses pass both gates." if number > 1 else "The response passes both gates."
        return ReportFinding(text, "reasons", good=True)
    reasons = [(reason, count) for reason, count in stats.reasons.most_common() if reason != "ok"]
    third = max((count for _, count in reasons[2:]), default=0)
    main = [reasons[0], *(pair for pair in reasons[1:2] if pair[1] > third and pair[1] >= MAIN_SHARE * failed)]
    named = " and ".join(f"{reason} ({count:,})" for reason, count in main)
    mostly = named if len(main) == len(reasons) else f"most often {named}"
    text = f"{failed:,} of {plural(number, 'response')} ({share(failed / number)}) fail a gate: {mostly}."
    by_reason = remedies(stats)
    advice = [f"{reason}: {by_reason[reason]}" if len(main) > 1 else by_reason[reason] for reason, _ in main]
    return ReportFinding(text, "reasons", advice)


def _faults(faults: Mapping[str, int]) -> ReportFinding:
    total, main = sum(faults.values()), max(faults, key=lambda reason: faults[reason])
    text = f"{plural(total, 'row')} could not be scored: most often {main} ({faults[main]:,})."
    advice = "They have no reward and are not counted here; the output has the error of each."
    return ReportFinding(text, "faults", [advice])


def _groups(stats: RewardStatistics) -> ReportFinding:
    multiple = [group for group in stats.groups if group.size > 1]
    if not multiple:
        advice = ["If several rows share a prompt, name its field with --group-field."]
        return ReportFinding("Every group has one response, so there are no advantages.", "groups", advice)
    flat = [group for group in multiple if group.flat]
    text = f"{len(flat):,} of {plural(len(multiple), 'group')} {'has' if len(flat) == 1 else 'have'} no spread"
    if not flat:
        return ReportFinding(f"{text}: every prompt gives a gradient.", "groups", good=True)
    lowest, highest = stats.bounds
    low, high = sum(group.range[0] <= lowest for group in flat), sum(group.range[1] >= highest for group in flat)
    text += f" ({share(len(flat) / len(multiple))}): {low:,} at the lowest reward, {high:,} at the highest."
    advice = ["They give no gradient."]
    if low:
        advice.append("At the lowest reward: the prompts are too hard, or the format is not learned yet.")
    if high:
        advice.append("At the highest reward: the prompts are too easy; filter them out.")
    return ReportFinding(text, "groups", advice, len(flat) <= len(multiple) // 10)


def _rewards(stats: RewardStatistics) -> ReportFinding:
    rewards, passed = stats.rewards.all(), stats.passed.all() > 0
    text = f"The mean reward is {fixed(rewards.mean())}"
    if not passed.any():
        return ReportFinding(f"{text}.", "rewards")
    if not passed.all():
        text += f"; among the responses that pass both gates it is {fixed(rewards[passed].mean())}"
    order = {"order": 1.0} if stats.scorer.settings.use_order else {}
    maxima = {"scale": 1.0, **order, "content": MAX_CONTENT}
    means = {name: float(np.mean(stats.components[name].all())) / largest for name, largest in maxima.items()}
    name = min(means, key=lambda name: means[name])
    if means[name] >= 1.0:
        return ReportFinding(f"{text}.", "rewards", good=True)
    weakest = f"Their weakest component is {name}, on average at {share(means[name])} of its maximum."
    return ReportFinding(f"{text}.", "components", [weakest], True)


def _hacking(stats: RewardStatistics) -> list[ReportFinding]:
    passed = "of the responses that pass both gates, whose rewards are no lower than the others'."
    advice = ["Possible reward hacking – inspect these rows."]
    return [
        ReportFinding(f"{sign.title} in {share(stats.signs.share(sign.name))} {passed}", "hacking", advice)
        for sign in SIGNS
        if stats.signs.is_suspicious(sign.name)
    ]


def _length(stats: RewardStatistics) -> list[ReportFinding]:
    passed = stats.passed.all() > 0
    lengths, rewards = stats.lengths.all()[passed], stats.rewards.all()[passed]
    r = correlation(lengths, rewards)
    if len(rewards) < MIN_CORRELATED or r is None or r < STRONG:
        return []
    text = f"Longer responses earn more (correlation {r:+.2f} among responses that pass both gates)."
    return [ReportFinding(text, "sizes", ["Check for padding."])]


DIGITS = {"mean_words": 2, "anchors": 2, "quantity_errors": 2}  # decimals of components; 4 for the others
MAX_FLAT = 200  # groups without spread that are listed, largest first
MAX_PHRASES = 12  # objects, and parameters, that are shown of a step

StepRow = tuple[KeyStep | None, KeyStep | None, Pair | None, str]
"""A step of the response, the step of the reference beside it, their pair, and a note on a step that stands alone."""


@dataclass(frozen=True, kw_only=True)
class ShownExample:
    example: RolloutExample
    response: str
    reference: str
    explanation: Explanation | None = None
    rows: Sequence[StepRow] = ()
    more_rows: int = 0
    problem: str = ""

    @staticmethod
    def chips(phrases: Sequence[Phrase], similarity: Similarity | None) -> list[tuple[str, str]]:
        more = len(phrases) - MAX_PHRASES
        chips = [(phrase.text[:80], kind_of(phrase, similarity)) for phrase in phrases[:MAX_PHRASES]]
        return [*chips, (f"and {more:,} more", "")] if more > 0 else chips


class Report(RewardStatistics):
    """Collects statistics while a file is scored; `write` creates the page."""

    def __init__(self, scorer: Scorer, name: str, command: str = "") -> None:
        super().__init__(scorer)
        self.name, self.command = name, command

    def write(self, target: str, faults: Mapping[str, int], other_tasks: Mapping[str, int] | None = None) -> None:
        """Write the page, completely or not at all; `faults`: rows by reason; `others`: rows of other tasks by task."""
        write_document(target, self._page(faults, other_tasks or {}).encode())

    def _page(self, faults: Mapping[str, int], other_tasks: Mapping[str, int]) -> str:
        rewards, passed = self.rewards.all(), self.passed.all() > 0
        number, settings = len(rewards), self.scorer.settings
        advice, defaults = remedies(self), ScoreSettings().model_dump()
        reasons = [
            (reason, count, share(count, number), Cell("", bar=count / number), advice[reason])
            for reason, count in self.reasons.most_common()
        ]
        changed = [
            (name, str(value), "" if value == defaults[name] else "changed")
            for name, value in settings.model_dump().items()
        ]
        sorted_faults = sorted(faults.items(), key=lambda pair: -pair[1])
        return render(
            "scored.html",
            report=self,
            faults=Table(["error", "rows"], sorted_faults, title="Rows that could not be scored", code=True),
            not_scored=sum(faults.values()),
            other_tasks=other_tasks,
            number=number,
            number_passed=int(passed.sum()),
            mean_reward=float(rewards.mean()) if number else None,
            verdict=verdict(self, faults),
            reasons=Table(
                ["reason", "responses", "share", "", "what to do"],
                reasons,
                title="Responses by reason",
                code=True,
                wide=True,
            ),
            reward_chart=self._reward_chart(rewards, passed),
            reward_table=_spreads([("reward", rewards), ("reward, both gates passed", rewards[passed])]),
            component_charts=self._component_charts(),
            component_table=_spreads([(name, values.all()) for name, values in self.components.items()], code=True),
            sizes=self._sizes(rewards, passed),
            grouped=_grouped(self.groups, self.bounds, self.name),
            examples=self._examples(),
            SIGNS=SIGNS,
            settings=Table(["setting", "value", ""], changed, title="Settings", code=True),
        )

    def _reward_chart(self, rewards: np.ndarray, passed: np.ndarray) -> Chart | None:
        if not len(rewards):
            return None
        label, failed = "Distribution of rewards", int((~passed).sum())
        return histogram(rewards, self.bounds, label, "reward", failed=failed, area=(640, 260))

    def _component_charts(self) -> list[tuple[str, str, Chart]]:
        charts = []
        for name, meaning in COMPONENTS.items():
            values = self.components[name].all()
            if len(values):
                bounds, bins = _bounds(name, values, self.scorer.settings)
                label, digits = f"Distribution of {name}", DIGITS.get(name, 4)
                charts.append((name, meaning, histogram(values, bounds, label, name, bins=bins, digits=digits)))
        return charts

    def _sizes(self, rewards: np.ndarray, passed: np.ndarray) -> list[tuple[str, Chart, str]]:
        steps = self.steps.all()
        drawn = (
            ("Reward and length", "bytes", self.lengths.all(), np.ones(len(rewards), bool)),
            ("Reward and number of steps, both gates passed", "steps", steps, steps > 0),
        )
        sizes = []
        for title, unit, x, rows in drawn:
            if rows.any():
                chart = scatter(x[rows], rewards[rows], passed[rows], self.bounds, title, unit)
                r = correlation(x[rows], rewards[rows])
                number = int(rows.sum())
                few = f" of only {plural(number, 'response')}" if number < FEW else ""
                sizes.append((title, chart, NOTHING if r is None else f"{r:+.2f}{few}".replace("-", "−")))
        return sizes

    def _examples(self) -> list[tuple[str, str, list[ShownExample]]]:
        chosen = (
            ("Highest-scoring responses", "", self.examples.best()),
            ("Lowest-scoring responses that passed both gates", "", self.examples.worst()),
            ("One example of each reason", "Chosen at random, the same ones each time.", self.examples.by_reason()),
        )
        return [
            (title, text, [shown(example, self.scorer) for example in examples]) for title, text, examples in chosen
        ]


def _bounds(name: str, values: np.ndarray, settings: ScoreSettings) -> tuple[tuple[float, float], int]:
    if name in ("anchors", "quantity_errors"):
        most = max(int(values.max()), 5)
        return (-0.5, most + 0.5), most + 1 if most < 40 else 40
    if name == "mean_words":
        high = max(float(values.max()), 1.0)  # 0 if no prose step has a word, which a min_coverage of 0 allows
        whole = ticks(0.0, high)[-1]
        return (0.0, whole if whole >= high else whole + ticks(0.0, high)[1]), 20
    largest = {"content": MAX_CONTENT, "semantics": MAX_CONTENT + 1.0, "score": settings.largest_score}
    return (0.0, max(largest.get(name, 1.0), float(values.max()))), 20


def _spreads(columns: Sequence[tuple[str, np.ndarray]], code: bool = False) -> Table:
    rows: list[Row] = []
    for name, values in columns:
        if not len(values):
            rows.append([name, 0, *[None] * (2 + len(QUANTILES))])
            continue
        deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        numbers = (float(values.mean()), deviation, *quantiles(values).values())
        rows.append([name, len(values), *(fixed(number, DIGITS.get(name, 4)) for number in numbers)])
    return Table(["", "n", "mean", "std", *QUANTILES], rows, code=code)


def _grouped(groups: RewardGroups, bounds: tuple[float, float], name: str) -> dict[str, Any] | None:
    multiple = [group for group in groups if group.size > 1]
    if not multiple:
        return None
    flat = [group for group in multiple if group.flat]
    lowest, highest = bounds
    means = np.array([group.mean for group in multiple])
    deviations = np.array([group.deviation for group in multiple])
    spread = (0.0, max(ticks(0.0, max(float(deviations.max()), 1e-3) * 1.2)))
    counts = {
        "prompts with one response": len(groups) - len(multiple),
        f"responses of further groups (only the first {len(groups):,} are tracked)": groups.left_out,
        "responses in groups without spread": sum(group.size for group in flat),
        "groups without spread at the lowest reward": sum(group.range[0] <= lowest for group in flat),
        "groups without spread at the highest reward": sum(group.range[1] >= highest for group in flat),
    }
    return {
        "sizes": group_sizes([group.size for group in multiple]),
        "charts": [
            histogram(means, bounds, "Mean reward of a group", "mean reward of a group", y_title="groups"),
            histogram(
                deviations, spread, "Spread within a group", "standard deviation within a group", y_title="groups"
            ),
        ],
        "counts": Table([], [(label, count) for label, count in counts.items() if count], title="Groups"),
        "flat": Table(
            ["first row", "responses", "reward", "prompt, shortened"],
            [
                (group.first.within(name), group.size, fixed(group.mean), group.label)
                for group in sorted(flat, key=lambda group: -group.size)[:MAX_FLAT]
            ],
            title="Groups without spread",
            wide=True,
        ),
        "flat_groups": len(flat),
    }


def group_sizes(sizes: Sequence[int]) -> str:
    least, most = min(sizes), max(sizes)
    groups = f"{len(sizes):,} groups" if len(sizes) > 1 else "1 group"
    if least == most:
        return f"{groups} of {most:,} responses"
    return f"{groups} of {least:,} to {most:,} responses, {sum(sizes) / len(sizes):,.1f} on average"


MAX_STEPS = 20  # rows of steps
MAX_TEXT = 6_000  # characters that are shown of a response, and of a reference
SUGGESTIONS = 3


def shown(example: RolloutExample, scorer: Scorer) -> ShownExample:
    reference = clipped(shown_reference(example.reference), MAX_TEXT)
    unexplained = ShownExample(example=example, response=clipped(example.response, MAX_TEXT), reference=reference)
    if not example.whole:
        return replace(unexplained, problem="The response is too long; only its beginning is shown.")
    try:
        explanation = explain(scorer, example.response, example.reference, suggestions=SUGGESTIONS)
    except ScoringError as error:  # too long for an explanation
        return replace(unexplained, problem="; ".join(issue.detail for issue in error.issues))
    rows = list(aligned(explanation)) if explanation.content else []
    more = max(len(rows) - MAX_STEPS, 0)
    return replace(unexplained, explanation=explanation, rows=rows[:MAX_STEPS], more_rows=more)


def shown_reference(reference: Any) -> str:
    """Return a reference as text: steps as key lines, and each alternative below its number."""
    if isinstance(reference, str):
        return reference
    if (entries := alternatives_of(reference)) is not None:
        return "\n\n".join(f"any_of[{k}]\n{shown_reference(entry)}" for k, entry in enumerate(entries))
    steps = reference["steps"] if reference else []
    return "\n".join(f"Step {k}: {orjson.dumps(step).decode()}" for k, step in enumerate(steps, 1))


def aligned(explanation: Explanation) -> Iterator[StepRow]:
    """Yield the steps of the response in order; a step of the reference without a partner after its predecessor."""
    pairs = {pair.predicted: pair for pair in explanation.pairs}
    out_of_order = explanation.order.out_of_order if explanation.order is not None else []
    lacking = [step for step in explanation.reference if step.partner is None]
    for step in explanation.prediction:
        pair = pairs.get(step.step)
        if pair is None:
            note = step.status if step.status != "ok" else "not in the reference"
            yield step, None, None, "out of order" if step.step in out_of_order else note
            continue
        while lacking and lacking[0].step < pair.reference:
            yield None, lacking.pop(0), None, "not in the response"
        yield step, explanation.reference[pair.reference - 1], pair, ""
    for step in lacking:
        yield None, step, None, "not in the response"


def kind_of(phrase: Phrase, similarity: Similarity | None) -> str:
    """Return "shared", "other" if the other side lacks words or terms of a phrase, or "" without another side."""
    if similarity is None or similarity.compared == "nothing" or not phrase.words:
        return ""
    shared = texts_of(similarity.shared)
    if similarity.compared == "terms":
        return "shared" if shared.issuperset(phrase.terms or ()) else "other"
    same = phrase.canon in shared if similarity.compared == "objects" else shared.issuperset(phrase.words)
    return "shared" if same else "other"
