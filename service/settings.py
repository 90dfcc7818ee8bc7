"""The settings of the reward, with their defaults and ranges (docs/rules.md, Settings)."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ..kernels.rules import PARAMETER_WEIGHT
from .errors import InvalidSetting, Issue, did_you_mean
from .version import signature_of

MAX_NAME = 100
MAX_SUGGESTIONS = 16
"""Unknown names of one request for which a similar name is searched, which takes 0.1 ms each."""

MAX_SCALE, MAX_ORDER, MAX_CONTENT = 1.0, 1.0, 1.0 + PARAMETER_WEIGHT
"""Largest r_scale, order and content, Obj + ½ Par."""

MAX_STEPS = 1_024
LIMITS = ("max_response_bytes", "max_steps")

IN_EVERY_SIGNATURE = {
    "order": "order",
    "semantics": "semantics",
    "total": "total",
    "reward_scale": "reward",
    "min_coverage": "coverage",
}
"""Settings that every signature has, and their names there; it has other settings if they differ from the default."""

RENAMED_IN_SIGNATURES = {"coverage": "coverage_by"}
"""Other settings whose name stands for another one in signatures."""

RULES_VERSION = "4"
"""Version of the scoring rules; every change that may change a reward changes it."""

DETAILS = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be one of: {expected}",
    "finite_number": "must be a finite number",
    "value_error": "{error}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list"),
    "too_long": "must have at most {max_length} items",
    "string_pattern_mismatch": "must match {pattern}",
}
"""Sentences about invalid values by pydantic's type of error; other errors have pydantic's message."""


def without_sign_of_zero(value: float) -> float:
    return value + 0.0


Real = Annotated[float, AfterValidator(without_sign_of_zero)]
"""A number, 0.0 for −0.0, which compares equal but is written differently."""


class ScoreSettings(BaseModel):
    """One complete configuration of the reward. Immutable; the defaults are the paper's."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    order: Literal["strict", "lcs"] = Field(default="strict", description="Action order: subsequence or LCS / m.")
    semantics: Literal["sum", "product"] = Field(default="sum", description="How order and content combine.")
    total: Literal["product", "sum"] = Field(default="product", description="How scale and semantics combine.")
    content_denominator: Literal["matched", "max_len"] = Field(
        default="matched", description="Content is divided by the number of anchors, or by max(n, m)."
    )
    length_penalty: Literal["absolute", "relative"] = Field(
        default="absolute", description="g above max_mean_words: the mean itself, or the mean over max_mean_words."
    )
    reward_scale: Literal["unit", "raw", "double", "shift"] = Field(
        default="unit", description="How SCORE is mapped to the reward."
    )
    # τ of the consistency gate
    min_coverage: Real = Field(
        default=0.95, ge=0, le=1, description="Smallest share of a step's words found in its prose."
    )
    # L of the length penalty g
    max_mean_words: Real = Field(default=30.0, ge=1, description="Mean words per prose step above which g applies.")
    object_similarity: Literal["fallback", "max"] = Field(
        default="fallback", description="Obj: words where no object is equal, or the larger of the two similarities."
    )
    parameter_similarity: Literal["words", "quantities"] = Field(
        default="words", description="Par: words, or quantities, so that 500 µl is 0.5 ml and 50 ml is not."
    )
    coverage: Literal["substring", "words"] = Field(
        default="substring", description="A step's word is found in its prose as a part of the text, or as a word."
    )
    # q
    quantity_error_factor: Real = Field(
        default=1.0, gt=0, le=1, description="Factor of SCORE for each wrong quantity of the matched steps; 1 for none."
    )
    # k of the consistency gate
    max_added_words: int | None = Field(
        default=None,
        ge=0,
        description="Most words that only a step's prose may have, and no negation; null (`none`) for no limit.",
    )
    # likewise
    max_added_numbers: int | None = Field(
        default=None, ge=0, description="Most numbers that only the prose may have; null (`none`) for no limit."
    )
    # λ of the position factor m_ij
    position_decay: Real = Field(default=1.5, gt=0, description="Exponent of the position factor.")
    use_step_gap: bool = Field(default=True, description="Ablation: the step-count factor f.")
    use_length: bool = Field(default=True, description="Ablation: the length penalty g.")
    use_position: bool = Field(default=True, description="Ablation: the position factor m_ij.")
    use_order: bool = Field(default=True, description="Ablation: the order term.")
    think_prefilled: bool = Field(default=False, description="Responses begin inside <think>.")
    advantage_ddof: int = Field(
        default=1, ge=0, le=1, description="Degrees of freedom of the group's standard deviation."
    )
    max_response_bytes: int = Field(default=262_144, ge=1, description="Longer responses are too_long.")
    max_steps: int = Field(default=MAX_STEPS, ge=1, description="Responses with more steps are too_long.")

    @classmethod
    def checked(cls, overrides: Mapping[str, Any], defaults: ScoreSettings | None = None) -> ScoreSettings:
        """Apply `overrides` to `defaults`; raises InvalidSetting naming every issue as `config.NAME`."""
        base = defaults.model_dump() if defaults is not None else {}
        try:
            return cls.model_validate(base | {str(name): value for name, value in overrides.items()})
        except ValidationError as error:
            raise InvalidSetting(setting_issues(error)) from None

    def overridden(self, overrides: Mapping[str, Any]) -> ScoreSettings:
        """Apply a request's `overrides` to the server's settings; raises InvalidSetting naming every issue.

        A request may lower a limit but not raise it: the server bounds the cost of a request.
        """
        raised = [
            Issue(f"config.{name}", "over_limit", f"must be at most {getattr(self, name)}, the server's own limit")
            for name in LIMITS
            if isinstance(overrides.get(name), int) and overrides[name] > getattr(self, name)
        ]
        try:
            settings = self.checked(overrides, self)
        except InvalidSetting as error:
            raise InvalidSetting([*error.issues, *raised]) from None
        if raised:
            raise InvalidSetting(raised)
        return settings

    @property
    def largest_score(self) -> float:
        """S: the maximum SCORE under this configuration (docs/rules.md, Score and reward)."""
        largest = MAX_CONTENT + MAX_ORDER if self.semantics == "sum" and self.use_order else MAX_CONTENT
        return largest + MAX_SCALE if self.total == "sum" else largest

    @property
    def reads_quantities(self) -> bool:
        """Whether parameters are read as quantities, of references, too."""
        return self.parameter_similarity == "quantities" or self.quantity_error_factor < 1

    @property
    def max_reference_steps(self) -> int:
        """The most steps of a reference: `max_steps`, of which a lower value is only about responses."""
        return max(self.max_steps, MAX_STEPS)

    @property
    def config_id(self) -> str:
        """Digest of every setting and of the version of the scoring rules."""
        canonical = json.dumps([RULES_VERSION, self.model_dump()], sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    @property
    def signature(self) -> str:
        """The configuration in one line, `SCORE|rules:4|order:strict|…|v:0.3.0`, to be quoted beside a result."""
        return self.signature_with({})

    def signature_with(self, further: Mapping[str, Any]) -> str:
        values = self.model_dump()
        always = {name: values.pop(field) for field, name in IN_EVERY_SIGNATURE.items()}
        changed = {
            RENAMED_IN_SIGNATURES.get(name, name): value
            for name, value in values.items()
            if value != type(self).model_fields[name].default
        }
        return signature_of("SCORE", {"rules": RULES_VERSION, **always, **changed, **further})


PAPER_OPTIONS: dict[str, Any] = {
    name: ScoreSettings.model_fields[name].default
    for name in ("parameter_similarity", "quantity_error_factor", "coverage", "max_added_numbers", "max_added_words")
}
"""The options that notice wrong protocols, as the paper has them: off."""

NULLABLE = frozenset(name for name, field in ScoreSettings.model_fields.items() if field.default is None)
NONE = "none"
"""Stands for null in addresses, variables, flags and TOML, which cannot say it."""


def is_null(name: str, value: Any) -> bool:
    """Return whether the text `value` of the setting `name` stands for null, the setting's default."""
    return name in NULLABLE and value == NONE


class SettingOverrides(TypedDict, total=False):
    """Some fields of `ScoreSettings` as keyword arguments, for type checkers; a test compares the two."""

    order: Literal["strict", "lcs"]
    semantics: Literal["sum", "product"]
    total: Literal["product", "sum"]
    content_denominator: Literal["matched", "max_len"]
    length_penalty: Literal["absolute", "relative"]
    reward_scale: Literal["unit", "raw", "double", "shift"]
    min_coverage: float
    max_mean_words: float
    object_similarity: Literal["fallback", "max"]
    parameter_similarity: Literal["words", "quantities"]
    coverage: Literal["substring", "words"]
    quantity_error_factor: float
    max_added_words: int | None
    max_added_numbers: int | None
    position_decay: float
    use_step_gap: bool
    use_length: bool
    use_position: bool
    use_order: bool
    think_prefilled: bool
    advantage_ddof: int
    max_response_bytes: int
    max_steps: int


def setting_issues(error: ValidationError, names: Iterable[str] = ScoreSettings.model_fields) -> list[Issue]:
    """Convert pydantic's errors to issues, which never quote the invalid value; `names` are the valid names."""
    issues: list[Issue] = []
    for details in error.errors(include_url=False, include_input=False):
        name = ".".join(str(part) for part in details["loc"])[:MAX_NAME]
        if details["type"] == "extra_forbidden":
            similar = did_you_mean(name, names) if len(issues) < MAX_SUGGESTIONS else ""
            detail = "there is no setting of this name" + similar
            issues.append(Issue(f"config.{name}", "unknown_setting", detail))
        else:
            issues.append(Issue(f"config.{name}", "invalid_setting", setting_detail(details)))
    return issues


def setting_detail(error: Mapping[str, Any]) -> str:
    """Return a sentence about one of pydantic's errors that does not quote the value."""
    context = {name: format_limit(value) for name, value in error.get("ctx", {}).items()}
    form = DETAILS.get(error["type"])
    detail = form.format(**context) if form is not None else str(error["msg"])
    return f"{detail}, or null (as text: {NONE})" if NULLABLE.intersection(error["loc"]) else detail


def format_limit(value: Any) -> str:
    """Format a limit or choices for a sentence: 1.0 as 1, and `'strict' or 'lcs'` as `strict, lcs`."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).replace(" or ", ", ").replace("'", "") if isinstance(value, str) else str(value)


@cache
def usable_cores() -> int:
    """Return the cores that this process may use: by its affinity and, rounded up, its cgroups' quotas. Read once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(math.ceil, cpu_quotas(Path("/")))]))


def cpu_quotas(root: Path) -> Iterator[float]:
    """Yield the quota of CPU time, in cores, of each cgroup that this process is in and that has one."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        top = root / "sys/fs/cgroup"
        names = ["cpu.max"]
        if "cpu" in controllers.split(","):  # version 1
            top, names = top / "cpu", ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        elif controllers:
            continue
        folder = top / path.lstrip("/")
        for group in [folder, *folder.parents][: len(folder.relative_to(top).parts) + 1]:
            with suppress(OSError, ValueError):
                quota, period = (word for name in names for word in (group / name).read_text().split())
                if quota not in ("max", "-1"):
                    yield int(quota) / int(period)
