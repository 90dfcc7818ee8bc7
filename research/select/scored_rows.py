"""Reads scored rows and chooses among them.

Some numbers of each row stay in memory; the rows themselves are spooled to a temporary file.
"""

from __future__ import annotations

import heapq
import math
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from hashlib import blake2b
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import orjson

from ...service.records.rows.fields import (
    PROMPT_NAMES,
    REFERENCE_NAMES,
    RESPONSE_NAMES,
    FieldError,
    FieldNames,
    absent_field,
    chat_messages,
    guess_field,
    has_field,
    value_at,
)
from ...service.records.rows.forms import unfolded
from ...service.records.rows.rows import NO_GROUP, Fault, Record, reference_of, value_digest
from ...service.rewards.registry import REWARD_TASKS, SCORE, reward_of
from ...service.rewards.scores import NO_SPREAD
from ...service.scoring.references import alternatives_of
from ...service.tasks.task import OK

Mode = Literal["best", "pairs", "curriculum"]
PAIR_TRAINERS = ("trl", "verl", "openrlhf", "ms-swift")  # trainers whose rows of preference pairs can be written
ALL = sys.maxsize  # a number of responses or pairs that no group has


@dataclass(frozen=True)
class SelectOptions:
    mode: Mode
    per_group: int = 1  # responses (best) or pairs to select from a group
    _: KW_ONLY
    min_reward: float | None = None  # reward from which a response is kept or chosen, or passes (curriculum)
    passed: bool = False  # whether only responses that pass are kept or chosen
    margin: float = 0.0  # minimum difference between the rewards of a pair
    min_pass_rate: float = 0.0
    max_pass_rate: float = 1.0
    trainer: str | None = None  # whose rows to write; None for plain rows


NO_REWARDS = "rows have no rewards yet; run first: assay score INPUT -o scored.jsonl --include components"

USUAL_NAMES = {"response": RESPONSE_NAMES, "prompt": PROMPT_NAMES, "reference": REFERENCE_NAMES}


def scored_fields(
    names: FieldNames, rows: Sequence[Mapping[str, Any]], kind: str, needed: Mapping[str, str]
) -> FieldNames:
    """Return the fields under the usual names that the rows use, None for those that they do not have.

    needed: why the rows must have a field, by its role (`prompt`). Raises FieldError if no row has one, unless there is
    no row.
    """
    if not rows:
        return names
    chosen: dict[str, str | None] = {}
    for role, usual in USUAL_NAMES.items():
        named: str = getattr(names, role)
        name = guess_field(named, usual, rows)
        present = any(name in row for row in rows)
        if not present and (named != usual[0] or role in needed):
            raise with_reason(absent_field(name, rows, f"--{role}-field", kind), needed.get(role))
        chosen[role] = name if present else None
    scored = [row for row in rows if row.get("error") is None]
    for role, path in (("reward", names.reward), ("group", names.group)):
        if path is not None and scored and not any(has_field(row, path) for row in scored):
            error = absent_field(path, scored, f"--{role}-field", kind)
            raise with_reason(error, NO_REWARDS if role == "reward" and path == "reward" else None)
    if not (chosen["prompt"] or chosen["reference"] or names.group):
        raise with_reason(absent_field("prompt", rows, "--prompt-field or --group-field", kind), "rows form groups")
    return names._replace(**chosen)  # type: ignore[arg-type]


def with_reason(error: FieldError, reason: str | None) -> FieldError:
    """Return the error with why the field is needed."""
    return FieldError(f"{reason}: {error}") if reason else error


def grouped_by(fields: FieldNames) -> str:
    """Name the fields that are equal within a group."""
    return fields.group or " and ".join(name for name in (fields.prompt, fields.reference) if name)


class Eligibility(IntEnum):
    """The first condition that a response does not meet to be kept or chosen, if there is one."""

    ELIGIBLE = 0
    FAILED_GATE = 1
    BELOW_MIN_REWARD = 2
    NOT_PASSED = 3


@dataclass
class ScoredRows:
    """The rows with a reward, in the order of the file: 38 bytes each, and their texts in the spool."""

    spool: IO[bytes]
    kind: str = "row"
    """The unit of row numbers: `line`, `record` or `row`."""
    _: KW_ONLY
    rewards: array[float] = field(default_factory=lambda: array("d"))
    groups: array[int] = field(default_factory=lambda: array("i"))
    """Groups are numbered from 0 in the order of their first rows."""
    digests: array[int] = field(default_factory=lambda: array("Q"))
    """Hashes of the responses."""
    eligibility: array[int] = field(default_factory=lambda: array("B"))
    passed: array[int] = field(default_factory=lambda: array("B"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    positions: array[int] = field(default_factory=lambda: array("q"))
    """Where rows begin in the spool; -1 for one that is not spooled."""
    has_chats: bool = False
    """True if a prompt is a list of chat messages."""
    has_alternatives: bool = False
    """True if a reference has alternatives."""

    def __len__(self) -> int:
        return len(self.rewards)

    def text(self, row: int) -> bytes:
        self.spool.seek(self.positions[row])
        return self.spool.readline()[:-1]

    def members(self) -> list[np.ndarray]:
        """Return the rows of each group, int64, ascending."""
        groups = np.frombuffer(self.groups, np.int32) if self.groups else np.zeros(0, np.int32)
        order = np.argsort(groups, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []


class RowReader:
    """Reads records into `rows`; counts those without a reward, and those with a fault, which it reports."""

    def __init__(
        self,
        options: SelectOptions,
        fields: FieldNames,
        by_components: bool,
        spool: IO[bytes],
        report: Callable[[Record, Fault], None],
    ) -> None:
        self.rows = ScoredRows(spool)
        self.read = 0
        self.not_scored: Counter[str] = Counter()
        """Rows that `assay score` gave an error instead of a reward, by its reason."""
        self.faults: Counter[str] = Counter()
        self._options = options
        self._fields = fields
        self._by_components = by_components
        self._report = report
        self._groups: dict[bytes, int] = {}
        self._end = 0

    def add(self, record: Record) -> None:
        self.read += 1
        self.rows.kind = record.location.kind
        fault = record.fault or self._read(record)
        if fault is not None:
            self.faults[fault.reason] += 1
            self._report(record, fault)

    def _read(self, record: Record) -> Fault | None:
        """Keep a row, or count one without a reward; return the fault of one that cannot be read."""
        if not isinstance(record.value, dict):
            return Fault("not_an_object", "the row is not a JSON object")
        row = unfolded(record.value)
        if (error := row.get("error")) is not None:
            self.not_scored[str(error.get("reason", "error")) if isinstance(error, Mapping) else "error"] += 1
            return None
        fault = self._fault_of(row)
        if fault is not None:
            return fault
        try:
            group = value_digest(self._group_of(row))
        except TypeError:  # columns may have values that JSON does not
            return Fault("wrong_type", f"group: {grouped_by(self._fields)} is not a JSON value")
        self._keep(record, row, group)
        return None

    def _keep(self, record: Record, row: Mapping[str, Any], group: bytes) -> None:
        rows, fields = self.rows, self._fields
        is_first = group not in self._groups
        reward, passed = float(value_at(row, fields.reward)), self._passes(row)
        rows.rewards.append(reward)
        rows.groups.append(self._groups.setdefault(group, len(self._groups)))
        response = row[fields.response or ""] if self._options.mode != "curriculum" else ""
        rows.digests.append(int.from_bytes(blake2b(response.encode(), digest_size=8).digest(), "little"))
        rows.eligibility.append(self._eligibility(row, reward, passed))
        rows.passed.append(passed)
        rows.numbers.append(record.location.number)
        reference = row.get(fields.reference) if fields.reference is not None else None
        rows.has_alternatives |= alternatives_of(reference_of(reference)) is not None
        rows.has_chats |= fields.prompt is not None and isinstance(row.get(fields.prompt), list)
        if self._options.mode == "curriculum" and not is_first:
            rows.positions.append(-1)
            return
        rows.positions.append(self._end)
        self._end += rows.spool.write((record.text or as_json(record)) + b"\n")

    def _group_of(self, row: Mapping[str, Any]) -> Any:
        fields = self._fields
        if fields.group is not None:
            return value_at(row, fields.group)
        return [row.get(name) for name in (fields.prompt, fields.reference) if name is not None]

    def _passes(self, row: Mapping[str, Any]) -> bool:
        if self._options.mode == "curriculum" and self._options.min_reward is not None:
            return self._reaches(value_at(row, self._fields.reward))
        return has_passed(row, self._by_components)

    def _reaches(self, reward: float) -> bool:
        return self._options.min_reward is None or reward >= self._options.min_reward - NO_SPREAD

    def _eligibility(self, row: Mapping[str, Any], reward: float, passed: bool) -> Eligibility:
        if row.get("reason", OK) != OK:
            return Eligibility.FAILED_GATE
        if not self._reaches(reward):
            return Eligibility.BELOW_MIN_REWARD
        return Eligibility.NOT_PASSED if self._options.passed and not passed else Eligibility.ELIGIBLE

    def _fault_of(self, row: Mapping[str, Any]) -> Fault | None:
        """Return why a row cannot be used."""
        fields, options = self._fields, self._options
        reward = fault_of_reward(row, fields.reward)
        if reward is not None:
            return reward
        if options.mode != "curriculum" and not isinstance(row.get(fields.response or ""), str):
            return Fault("not_a_string", f"the field {fields.response!r} is not a string")
        if fields.group is not None:
            try:
                if value_at(row, fields.group) is None:
                    return NO_GROUP
            except KeyError:
                return Fault("missing_field", f"no field {fields.group!r}")
        if options.trainer is not None and (fault := self._fault_of_prompt(row)):
            return fault
        if self._by_components and (options.passed or options.mode == "curriculum"):
            components = components_of(row)
            missing = [name for name in needed_components(row) if not isinstance(components.get(name), float | int)]
            if missing:
                return Fault("missing_field", f"no component {', '.join(missing)}")
        return None

    def _fault_of_prompt(self, row: Mapping[str, Any]) -> Fault | None:
        """Return why a trainer cannot use the prompt, or in a curriculum the reference."""
        fields, options = self._fields, self._options
        prompt = row.get(fields.prompt) if fields.prompt is not None else None
        if not isinstance(prompt, str) and not chat_messages(prompt):
            return Fault("wrong_type", f"the field {fields.prompt!r} is neither text nor a list of chat messages")
        if options.trainer == "verl" and options.mode == "pairs" and not isinstance(prompt, str):
            return Fault("wrong_type", f"the field {fields.prompt!r} is not text, which verl's pairs need")
        if options.mode == "curriculum" and fields.reference is not None and row.get(fields.reference) is None:
            return Fault("missing_field", f"no field {fields.reference!r}")
        return None


def fault_of_reward(row: Mapping[str, Any], path: str) -> Fault | None:
    """Return why the value at a path is not a reward."""
    try:
        reward = value_at(row, path)
    except KeyError:
        return Fault("missing_field", f"no field {path!r}, and no error")
    if isinstance(reward, bool) or not isinstance(reward, float | int):
        return Fault("not_a_number", f"the field {path!r} is not a number")
    return None if math.isfinite(reward) else Fault("not_finite", f"the field {path!r} is {reward}")


def as_json(record: Record) -> bytes:
    """Encode a record that no text was read of."""
    if record.location.kind != "row":
        return orjson.dumps(record.value)
    from ...service.records.files.columns import json_text_of  # needs the extra

    return json_text_of({name: value for name, value in record.value.items() if name != "error"})  # it is null


def components_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the components of a row: an object in JSON, columns of the row itself otherwise."""
    nested = row.get("components")
    return nested if isinstance(nested, Mapping) else row


def needed_components(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the components that are all 1 for a response that passes the row's task."""
    task = row.get("task")
    return reward_of(task if task in REWARD_TASKS else SCORE).passed_if


def has_components(row: Mapping[str, Any]) -> bool:
    """Return whether a row says if its response passes, besides by its reason."""
    components = components_of(row)
    return all(isinstance(components.get(name), float | int) for name in needed_components(row))


def has_passed(row: Mapping[str, Any], by_components: bool) -> bool:
    """Return whether the response of a row passes: both gates and order 1, or without components both gates."""
    if not by_components:
        return row.get("reason") == OK
    components = components_of(row)
    return all(abs(components[name] - 1.0) <= NO_SPREAD for name in needed_components(row))


NO_CANDIDATE = {
    Eligibility.FAILED_GATE: "all_failed_gate",
    Eligibility.BELOW_MIN_REWARD: "all_below_min_reward",
    Eligibility.NOT_PASSED: "none_passed",
}
"""Why a group without an eligible response is dropped, by the last condition that one of its responses met."""


class GroupFigures(NamedTuple):
    rollouts: int
    pass_rate: float
    mean_reward: float
    spread: float  # largest minus smallest

    @property
    def without_spread(self) -> str | None:
        """Why nothing can be learned by comparing the rewards, if so: DAPO's rule, equal but for rounding."""
        if self.rollouts < 2:
            return "single"
        return "no_spread" if self.spread <= NO_SPREAD else None


@dataclass
class RowChoice:
    picked: array[int] = field(default_factory=lambda: array("q"))  # kept, chosen, or the first of a group
    rejected: array[int] = field(default_factory=lambda: array("q"))  # the other row of each pair
    kept_groups: int = 0
    dropped_groups: dict[int, str] = field(default_factory=dict)  # reason by the number of the group
    dropped_rows: Counter[str] = field(default_factory=Counter)  # rows that are not among the best, by reason


def choose(rows: ScoredRows, members: Sequence[np.ndarray], options: SelectOptions) -> RowChoice:
    choice = RowChoice()
    rule = {"best": _choose_best, "pairs": _choose_pairs, "curriculum": _choose_prompt}[options.mode]
    for number, group in enumerate(members):
        reason = rule(rows, group.tolist(), options, choice)
        if reason is None:
            choice.kept_groups += 1
        else:
            choice.dropped_groups[number] = reason
    if options.mode == "curriculum":
        _sort_by_difficulty(rows, members, choice)
    return choice


def figures_of(rows: ScoredRows, group: Sequence[int]) -> GroupFigures:
    rewards = [rows.rewards[row] for row in group]
    size = len(rewards)
    passes = sum(rows.passed[row] for row in group)
    return GroupFigures(size, passes / size, math.fsum(rewards) / size, max(rewards) - min(rewards))


def _choose_best(rows: ScoredRows, group: list[int], options: SelectOptions, choice: RowChoice) -> str | None:
    """Keep the eligible responses with the highest rewards, each text once; the earlier of equal ones."""
    eligible = [row for row in group if rows.eligibility[row] == Eligibility.ELIGIBLE]
    choice.dropped_rows.update(Eligibility(code).name.lower() for row in group if (code := rows.eligibility[row]))
    unique = _unique(rows, sorted(eligible, key=lambda row: -rows.rewards[row]))
    best = unique[: options.per_group]
    choice.picked.extend(best)
    choice.dropped_rows.update(duplicate=len(eligible) - len(unique), not_among_best=len(unique) - len(best))
    return None if best else _no_candidate(rows, group)


def _choose_pairs(rows: ScoredRows, group: list[int], options: SelectOptions, choice: RowChoice) -> str | None:
    """Pair eligible responses with others of lower rewards, the largest differences first."""
    if reason := figures_of(rows, group).without_spread:
        return reason
    ranked = _unique(rows, sorted(group, key=lambda row: -rows.rewards[row]))
    chosen = [row for row in ranked if rows.eligibility[row] == Eligibility.ELIGIBLE]
    if not chosen:
        return _no_candidate(rows, group)
    count = 0
    for better, worse in _by_difference(rows, chosen, sorted(ranked, key=lambda row: (rows.rewards[row], row))):
        difference = rows.rewards[better] - rows.rewards[worse]
        if count == options.per_group or difference <= NO_SPREAD or difference < options.margin - NO_SPREAD:
            break
        choice.picked.append(better)
        choice.rejected.append(worse)
        count += 1
    return None if count else "below_margin"


def _by_difference(rows: ScoredRows, chosen: list[int], rejected: list[int]) -> Iterator[tuple[int, int]]:
    """Merge chosen rows, by falling reward, with rejected ones, by rising reward: yield pairs by falling difference."""
    heap = [(rows.rewards[rejected[0]] - rows.rewards[row], row, rejected[0], 0) for row in chosen]
    heapq.heapify(heap)
    while heap:
        _, better, worse, k = heap[0]
        yield better, worse
        if k + 1 == len(rejected):
            heapq.heappop(heap)
        else:
            worse = rejected[k + 1]
            heapq.heapreplace(heap, (rows.rewards[worse] - rows.rewards[better], better, worse, k + 1))


def _choose_prompt(rows: ScoredRows, group: list[int], options: SelectOptions, choice: RowChoice) -> str | None:
    figures = figures_of(rows, group)
    if reason := figures.without_spread:
        return reason
    if figures.pass_rate < options.min_pass_rate:
        return "below_min_pass_rate"
    if figures.pass_rate > options.max_pass_rate:
        return "above_max_pass_rate"
    choice.picked.append(group[0])
    return None


def _sort_by_difficulty(rows: ScoredRows, members: Sequence[np.ndarray], choice: RowChoice) -> None:

    def difficulty(row: int) -> tuple[float, float, int]:
        figures = figures_of(rows, members[rows.groups[row]].tolist())
        return (-figures.pass_rate, -figures.mean_reward, row)

    choice.picked = array("q", sorted(choice.picked, key=difficulty))


def _unique(rows: ScoredRows, ranked: list[int]) -> list[int]:
    first: dict[int, int] = {}
    for row in ranked:
        first.setdefault(rows.digests[row], row)
    return list(first.values())


def _no_candidate(rows: ScoredRows, group: list[int]) -> str:
    return NO_CANDIDATE[Eligibility(max(rows.eligibility[row] for row in group))]
