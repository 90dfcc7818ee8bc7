"""Whether the reward tells right answers from wrong ones: pairs of answers, and how often the right one earns more.

Wrong answers are gold answers with one change that destroys what they mean, or the steps with an error of BioProBench's
ERR. Each is compared with the gold answer, and a changed one with the gold answer in other words as well.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...service.errors import InvalidReference
from ...service.rewards.scorer import Scorer
from ...service.rewards.scores import NO_SPREAD
from ...service.tables.table import Cell, Row, Table
from ...service.wording import plural
from .changes import DESTROYING_BY_KIND, HARMLESS, Answer, Step, answer_in
from .gold import Option
from .policies import DOSE, RATIO
from .rows import CheckedRow

ERRORS_TASK = "bioprobench.err"
OTHER_WORDS = "other words"
"""The kind of changes that leave a protocol right."""

Z = 1.959964  # of a two-sided interval of 95 %

NUMBERING = re.compile(r"(?:step\s+)?[0-9]+(?:\.[0-9]+)*[.):]?\s+", re.IGNORECASE)
BETWEEN = re.compile(
    r"[,;:.](?=\s|$)|[()]|"
    r"\b(?:a|an|and|at|by|for|from|in|into|of|on|onto|or|per|the|then|to|until|using|with)\b",
    re.IGNORECASE,
)
"""What separates the objects of a sentence, once its doses are taken out."""


class Case(NamedTuple):
    """A right answer, and changed ones, each with its kind, which is OTHER_WORDS or an error, and its title."""

    right: str
    changed: Sequence[tuple[str, str, str]]


def case_of(row: CheckedRow) -> Case | None:
    """Return the pairs that a row gives, None if it gives none."""
    if row.rollout.task == ERRORS_TASK:
        return case_of_error(row.rollout.reference)
    gold = answer_in(row.rollout.response)
    if gold is None:
        return None
    by_kind = {OTHER_WORDS: HARMLESS, **DESTROYING_BY_KIND}
    changed = [(kind, title, change(gold)) for kind, changes in by_kind.items() for title, change in changes.items()]
    return Case(gold.text, [(kind, title, answer.text) for kind, title, answer in changed if answer != gold])


def case_of_error(record: Mapping[str, Any]) -> Case | None:
    """Return the right and the wrong step of a record of BioProBench's ERR, each between the steps around it."""
    context = record.get("context")
    context = context if isinstance(context, dict) else {}
    before, after = (step_of(context.get(name)) for name in ("prior_step", "next_step"))
    right, wrong = (step_of(record.get(name)) for name in ("corrected_text", "corrupted_text"))
    if right is None or wrong is None or right == wrong:
        return None
    texts = [Answer(tuple(filter(None, (before, step, after)))).text for step in (right, wrong)]
    kind = record.get("type")
    return Case(texts[0], [(kind if isinstance(kind, str) else "error", "BioProBench's ERR", texts[1])])


def step_of(sentence: object) -> Step | None:
    """Return a sentence as a step: its first word is the action, its doses and ratios are the parameters, and the
    words between them, prepositions, articles and punctuation are the objects. None without a word.
    """
    if not isinstance(sentence, str):
        return None
    prose = NUMBERING.sub("", " ".join(sentence.split()), count=1) if NUMBERING.match(sentence) else sentence
    prose = " ".join(prose.split())
    action, _, others = prose.partition(" ")
    if not any(map(str.isalnum, action)):
        return None
    parameters = [dose[0].strip() for pattern in (DOSE, RATIO) for dose in pattern.finditer(others)]
    pieces = BETWEEN.split(RATIO.sub(", ", DOSE.sub(", ", others)))
    objects = [piece.strip() for piece in pieces if any(map(str.isalnum, piece))]
    return Step(action.strip(",.:;").lower(), tuple(objects), tuple(parameters), prose)


class Share(NamedTuple):
    """How often the right answer earns more: a mean over records, and its interval of 95 %.

    The pairs of a record are not independent, so that the interval is Wilson's of as many values as there are records.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Share:
        n, mean = len(values), math.fsum(values) / len(values)
        centre, spread = mean + Z * Z / (2 * n), Z * math.sqrt(mean * (1 - mean) / n + Z * Z / (4 * n * n))
        low, high = ((centre + sign * spread) / (1 + Z * Z / n) for sign in (-1, 1))
        return cls(mean, max(low, 0.0), min(high, 1.0))

    def __str__(self) -> str:
        return f"{100 * self.mean:.0f} ({100 * self.low:.0f}–{100 * self.high:.0f})"


class Told(NamedTuple):
    """One kind of error, or one change of a kind; `more`, `more_in_other_words` and `costs` have a value for each
    configuration, None without a pair.
    """

    kind: str
    title: str
    records: int
    more: Sequence[Share]
    more_in_other_words: Sequence[Share] | None
    costs: Sequence[float]

    def document(self, names: Sequence[str]) -> dict[str, Any]:
        other = self.more_in_other_words
        return {
            "kind": self.kind,
            "change": self.title,
            "records": self.records,
            "right_earns_more": {name: share._asdict() for name, share in zip(names, self.more, strict=True)},
            "right_in_other_words_earns_more": other
            and {name: share._asdict() for name, share in zip(names, other, strict=True)},
            "mean_cost": dict(zip(names, self.costs, strict=True)),
        }


class Discrimination:
    """Compares the answers of pairs under the configuration at hand and under each of the options."""

    def __init__(self, scorer: Scorer, options: Sequence[Option]) -> None:
        self._scorer, self._options = scorer, options
        self.names = ["configured", *(option.name for option in options)]
        self.titles = ["configured", *(option.title for option in options)]
        self.without_pairs = 0
        self._values: dict[tuple[str, str], list[tuple[np.ndarray, ...]]] = defaultdict(list)
        """By kind and title, or no title for all of a kind: a record's means over its pairs, (configurations,) each."""

    def add(self, rows: Iterable[CheckedRow]) -> None:
        """Compare the answers of rows that have been read without a fault."""
        for row in rows:
            case = case_of(row)
            if case is None or all(kind == OTHER_WORDS for kind, *_ in case.changed):
                self.without_pairs += 1
            else:
                try:
                    self._add_case(case)
                except InvalidReference:  # the right answer is over a limit
                    self.without_pairs += 1

    def _add_case(self, case: Case) -> None:
        responses = [case.right, *(text for *_, text in case.changed)]
        configs = [{}, *(option.overrides for option in self._options)]
        scores = self._scorer.score_configs(configs, responses, [case.right], [0] * len(responses))
        rewards = np.array([of_config.rewards for of_config in scores])
        places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for k, (kind, title, _) in enumerate(case.changed, start=1):
            places[kind, title].append(k)
            places[kind, ""].append(k)
        right, others = rewards[:, :1], rewards[:, places.get((OTHER_WORDS, ""), []), None]
        for (kind, title), chosen in places.items():
            costs, in_other_words = right - rewards[:, chosen], np.full(len(rewards), np.nan)
            if others.size and kind != OTHER_WORDS:
                in_other_words = (others - rewards[:, None, chosen] > NO_SPREAD).mean(axis=(1, 2))
            self._values[kind, title].append(((costs > NO_SPREAD).mean(axis=1), in_other_words, costs.mean(axis=1)))

    def told(self, by_change: bool = False) -> list[Told]:
        """Return each kind of error, or each change of every kind, and last other words."""
        chosen = [self._told(kind, title) for kind, title in self._values if bool(title) == by_change]
        return sorted(chosen, key=lambda told: (told.kind == OTHER_WORDS, told.kind))

    def _told(self, kind: str, title: str) -> Told:
        more, other, costs = (np.array(columns).T for columns in zip(*self._values[kind, title], strict=True))
        known = ~np.isnan(other[0])
        shares = [Share.of(column.tolist()) for column in more]
        in_other_words = [Share.of(column[known].tolist()) for column in other] if known.any() else None
        return Told(kind, title, more.shape[1], shares, in_other_words, costs.mean(axis=1).tolist())

    def tables(self) -> Iterator[Table]:
        """Yield the table of kinds for a terminal: the configuration at hand, the paper's rules and all options."""
        shown = [k for k, name in enumerate(self.names) if name in ("configured", "paper", "all")]
        head = ["%", "records", *(self.titles[k] for k in shown)]
        notes = [f"%: how often the right answer earns more, with intervals of 95 %; of {OTHER_WORDS}, it should be 0."]
        if self.without_pairs:
            notes.append(f"{plural(self.without_pairs, 'row')} without a right and a wrong answer within the limits.")
        rows: list[Row] = [[told.kind, told.records, *(str(told.more[k]) for k in shown)] for told in self.told()]
        yield Table(head, rows, title="Right answers beside wrong ones", notes=notes)
        rows = [
            [told.kind, told.records, *(str(told.more_in_other_words[k]) for k in shown)]
            for told in self.told()
            if told.more_in_other_words is not None
        ]
        if rows:
            yield Table(head, rows, title="Right answers in other words beside wrong ones")

    def page_tables(self) -> list[Table]:
        """Return the same tables, and one of every change."""
        rows: list[Row] = []
        for told in self.told(by_change=True):
            pairs = zip(told.more, told.costs, strict=True)
            cells = [Cell(f"{100 * share.mean:.0f}", n=f"{cost:.3f}") for share, cost in pairs]
            rows.append([told.kind, told.title, told.records, *cells])
        note = "How often the right answer earns more, in percent, and in parentheses what the change costs on average."
        heads = ["kind", "change", "records", *self.titles]
        return [*self.tables(), Table(heads, rows, left=2, groups=1, title="By change", notes=[note])]

    def document(self) -> dict[str, Any]:
        return {
            "rows_without_pairs": self.without_pairs,
            "kinds": [told.document(self.names) for told in self.told()],
            "changes": [told.document(self.names) for told in self.told(by_change=True)],
        }
