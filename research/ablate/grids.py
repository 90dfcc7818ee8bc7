"""Grids of configurations, from the paper's tables or from files."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from ...service.errors import InvalidSetting, Issue
from ...service.explain.explanation import smallest_and_largest
from ...service.rewards.batch import Batch
from ...service.rewards.registry import SCORE, identity_of, reward_of
from ...service.scoring.column_scorer import ColumnScorer
from ...service.settings import PAPER_OPTIONS, ScoreSettings, is_null
from ...service.tasks.evaluation import task_named
from ...service.tasks.task import ignore_progress
from ...service.version import signature_text
from ...service.whole_files import read_whole

SEPARATOR = " · "
"""Between the values in the name of a configuration."""

MAX_CONFIGURATIONS = 64
"""The largest grid: each configuration takes eight bytes of memory per row, and a line of the table."""

STEP_GAP, LENGTH, POSITION, ORDER = SWITCHES = ("use_step_gap", "use_length", "use_position", "use_order")
TABLE_3 = {
    "w/o f(d)": (STEP_GAP,),
    "w/o g(L̄)": (LENGTH,),
    "w/o f(d)+g(L̄)": (STEP_GAP, LENGTH),
    "w/o m_ij": (POSITION,),
    "w/o Order(·)": (ORDER,),
    "w/o Order(·)+f(d)+g(L̄)": (ORDER, STEP_GAP, LENGTH),
}
"""The ablations of the paper's Table 3 by its names, and the switches that each turns off."""

VANILLA = "Vanilla"
VANILLA_OPTIONS = {"reward": "vanilla", "section": "orc"}
"""The last row of Table 3, which is no configuration of SCORE but the mean of BLEU-AVG, ROUGE-L and BERTScore."""
TASK_OF = {VANILLA: "lexical"}
"""Rows of grids that are rewards of another task."""

QUANTITIES = {"parameter_similarity": "quantities"}
FACTOR = {"quantity_error_factor": 0.5}
BY_WORDS, NO_NUMBERS, FEW_WORDS = {"coverage": "words"}, {"max_added_numbers": 0}, {"max_added_words": 2}
RULES_4: dict[str, dict[str, Any]] = {
    "paper": {},
    "quantities": QUANTITIES,
    f"quantities{SEPARATOR}factor 0.5": QUANTITIES | FACTOR,
    "by words": BY_WORDS,
    f"by words{SEPARATOR}numbers 0": BY_WORDS | NO_NUMBERS,
    f"by words{SEPARATOR}numbers 0{SEPARATOR}words 2": BY_WORDS | NO_NUMBERS | FEW_WORDS,
    "laboratory": QUANTITIES | FACTOR | BY_WORDS | NO_NUMBERS | FEW_WORDS,
}
"""What counts wrong quantities, what keeps the prose to its steps, and both."""

GRIDS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "table21": [
        (SEPARATOR.join(values), dict(zip(("order", "semantics", "total"), values, strict=True)))
        for values in product(("strict", "lcs"), ("sum", "product"), ("product", "sum"))
    ],
    "table3": [
        ("Thoth", dict.fromkeys(SWITCHES, True)),
        *((name, {switch: switch not in off for switch in SWITCHES}) for name, off in TABLE_3.items()),
        (VANILLA, VANILLA_OPTIONS),
    ],
    "table22": [(scale, {"reward_scale": scale}) for scale in ("unit", "raw", "double", "shift")],
    "rules3": [
        ("words", {"parameter_similarity": "words", "max_added_numbers": None}),
        (f"words{SEPARATOR}added numbers 0", {"parameter_similarity": "words", "max_added_numbers": 0}),
        ("quantities", {"parameter_similarity": "quantities", "max_added_numbers": None}),
        (f"quantities{SEPARATOR}added numbers 0", {"parameter_similarity": "quantities", "max_added_numbers": 0}),
    ],
    "rules4": [(name, PAPER_OPTIONS | overrides) for name, overrides in RULES_4.items()],
}
"""Grids of the paper and of the options of rules 3 and 4: the name of each configuration and the settings it fixes."""

BASE = "base"
"""Name of the configuration at hand, if no other one of the grid equals it."""


class Configuration(NamedTuple):
    """One configuration of a grid: what it overrides in the one at hand, and the result."""

    name: str
    overrides: dict[str, Any]
    settings: ScoreSettings
    task: str = SCORE
    options: Any = None
    """Options of another task, whose reward is computed instead of SCORE's."""

    @property
    def identity(self) -> dict[str, str]:
        """`config_id` and `signature`."""
        scorers = {"config": ColumnScorer([self.settings], threads=1)}
        return identity_of(Batch(task=self.task, configurations=scorers, options={self.task: self.options}))

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest reward."""
        return smallest_and_largest(self.settings)

    @property
    def lacks(self) -> str:
        """Return what is missing to compute the rewards, an empty text if nothing is."""
        return ""


class MetricReward(Configuration):
    """The reward of another task: the metric that its option `reward` names."""

    @property
    def identity(self) -> dict[str, str]:
        return {"task": self.task, **super().identity}

    @property
    def range(self) -> tuple[float, float]:
        metric = next(metric for metric in task_named(self.task).metrics if metric.name == self.options.reward)
        return metric.low or 0.0, metric.high or 1.0

    @property
    def lacks(self) -> str:
        options = self.options.model_copy(update={"metrics": [self.options.reward]})
        unavailable = task_named(self.task).evaluate([], options, ignore_progress).unavailable
        return next((notice.advice for notice in unavailable.values()), "")


class Grid(NamedTuple):
    """Configurations with different names, and the number of the one at hand (`base`), with which they are compared."""

    name: str
    configurations: list[Configuration]
    base: int


def grid_named(name: str, base: ScoreSettings, options: Mapping[str, Any] | None = None) -> Grid:
    """Return one of `GRIDS`, or the grid of a TOML or JSON file, around the configuration `base`.

    The configuration at hand is added as the first one if none of the grid is equal to it.
    options: of the row Vanilla. Raises OSError if the file cannot be read, and InvalidSetting naming every invalid
    setting and option.
    """
    named = GRIDS.get(name)
    if named is None:
        named = list(expanded(read_grid(Path(name)), base))
    repeated = [label for label, count in Counter(label for label, _ in named).items() if count > 1]
    if repeated:
        detail = "more than one configuration has this name"
        raise InvalidSetting([Issue(label, "duplicate", detail) for label in repeated])
    tasks = TASK_OF if name in GRIDS else {}
    configurations = [
        configuration(label, overrides, base, tasks.get(label), options or {}) for label, overrides in named
    ]
    if options and not any(row.options for row in configurations):
        raise InvalidSetting([Issue("options", "unknown_setting", f"only the row {VANILLA} of table3 has options")])
    equal = [k for k, row in enumerate(configurations) if row.identity["config_id"] == base.config_id]
    if not equal:
        configurations.insert(
            0, Configuration(BASE if BASE not in dict(named) else f"{BASE}{SEPARATOR}at hand", {}, base)
        )
    return Grid(name if name in GRIDS else Path(name).name, configurations, equal[0] if equal else 0)


def configuration(
    name: str, overrides: dict[str, Any], base: ScoreSettings, task: str | None, options: Mapping[str, Any]
) -> Configuration:
    """Return a configuration of SCORE, or of a task with options; raises InvalidSetting."""
    if task is None:
        return Configuration(name, overrides, base.overridden(overrides))
    chosen = overrides | dict(options)
    return MetricReward(name, chosen, base, task, reward_of(task).options(chosen))


def read_grid(path: Path) -> Any:
    """Return the value of a JSON file (.json) or else a TOML file; raises InvalidSetting if it is malformed."""
    content = read_whole(path)
    try:
        return orjson.loads(content) if path.suffix.lower() == ".json" else tomllib.loads(content.decode())
    except (orjson.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise InvalidSetting([Issue("the grid", "not_a_grid", f"not {kind}: {error}")]) from None


def expanded(document: Any, base: ScoreSettings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and overrides of every configuration: each table gives one for every combination of its lists.

    Raises InvalidSetting naming every issue, before the first one.
    """
    tables = tables_of(document)
    if not tables:
        detail = "it must be a table of settings, or a list of such tables named `configs`"
        raise InvalidSetting([Issue("the grid", "not_a_grid", detail)])
    if issues := [issue for path, table in tables.items() for issue in table_issues(table, path, base)]:
        raise InvalidSetting(issues)
    number = sum(combinations(table) for table in tables.values())
    if number > MAX_CONFIGURATIONS:
        detail = f"it has {number:,} configurations; at most {MAX_CONFIGURATIONS} are possible"
        raise InvalidSetting([Issue("the grid", "too_many", detail)])
    for table in tables.values():
        yield from combined(table)


def tables_of(document: Any) -> dict[str, Any]:
    """Return the tables of a grid by their paths: those in `configs` or in a list, or the whole document."""
    listed = document["configs"] if isinstance(document, dict) and document.keys() == {"configs"} else document
    if isinstance(listed, list):
        return {f"configs[{k}]": table for k, table in enumerate(listed)}
    return {"": listed} if isinstance(listed, dict) and listed else {}


def table_issues(table: Any, path: str, base: ScoreSettings) -> Iterator[Issue]:
    """Yield what is wrong with a table at `path`: each value of each setting is checked on its own."""
    if not isinstance(table, dict):
        yield Issue(path, "wrong_type", "must be a table of settings")
        return
    for name, value in table.items():
        where = ".".join(filter(None, (path, name)))
        if name == "name":
            if not isinstance(value, str) or not value.strip():
                yield Issue(where, "wrong_type", "must be text")
        elif value == []:
            yield Issue(where, "invalid_setting", "the list has no value")
        else:
            for k, choice in enumerate(values_of(name, value)):
                at = f"{where}[{k}]" if isinstance(value, list) else where
                yield from (Issue(at, issue.reason, issue.detail) for issue in issues_with(base, {name: choice}))


def issues_with(base: ScoreSettings, overrides: Mapping[str, Any]) -> Sequence[Issue]:
    try:
        base.overridden(overrides)
    except InvalidSetting as error:
        return error.issues
    return ()


def values_of(name: str, value: Any) -> list[Any]:
    """Return the values of a setting in a table: a list, or a single value. `none` stands for null."""
    return [None if is_null(name, choice) else choice for choice in (value if isinstance(value, list) else [value])]


def settings_of(table: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: values_of(name, value) for name, value in table.items() if name != "name"}


def combinations(table: Mapping[str, Any]) -> int:
    """Return the number of configurations of a table."""
    return math.prod(map(len, settings_of(table).values()))


def combined(table: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and overrides of each combination: its given name, or the settings that it has."""
    choices = settings_of(table)
    varied = [name for name, values in choices.items() if len(values) > 1]
    for values in product(*choices.values()):
        overrides = dict(zip(choices, values, strict=True))
        prefix = [table["name"].strip()] if "name" in table else []
        shown = varied if varied or prefix else overrides
        yield SEPARATOR.join([*prefix, *labels(overrides, shown)]) or BASE, overrides


def labels(overrides: Mapping[str, Any], shown: Iterable[str]) -> list[str]:
    """Return `name=value` for each of the settings `shown`."""
    return [f"{name}={signature_text(overrides[name])}" for name in shown]
