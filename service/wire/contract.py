"""The contract of the HTTP service as pydantic models, for the OpenAPI document.

The hot path does not use them: `json_codec` decodes requests, and a test checks that both accept the same ones.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, StrictInt, StrictStr

from ..contract import EXAMPLE_REFERENCE, EXAMPLE_RESPONSE, Contract, Overrides, Reference
from ..rewards.registry import REWARD_TASKS
from ..settings import ScoreSettings
from ..tasks.evaluation import TASKS

TaskName = Annotated[StrictStr, Field(json_schema_extra={"enum": list(REWARD_TASKS)})]

EXAMPLE_REQUEST: dict[str, JsonValue] = {
    "references": [EXAMPLE_REFERENCE],
    "responses": [EXAMPLE_RESPONSE, "Add buffer, then spin."],
    "include": ["components", "advantages"],
}

EXAMPLE_STEPS_REQUEST: dict[str, JsonValue] = {
    "references": [{"any_of": [EXAMPLE_REFERENCE, {"steps": [{"action": "add", "objects": [], "parameters": []}]}]}],
    "responses": [EXAMPLE_RESPONSE],
    "include": ["steps"],
}

EXAMPLE_MIXED_REQUEST: dict[str, JsonValue] = {
    "task": ["score", "bioprobench.pqa"],
    "references": [EXAMPLE_REFERENCE, {"answer": "2 h"}],
    "responses": [EXAMPLE_RESPONSE, "[ANSWER_START]2 h & 90[ANSWER_END]"],
    "groups": ["prompt 1", "prompt 2"],
    "config": {"order": "lcs", "bioprobench.pqa": {"reward": "calibrated"}},
}

EXAMPLE_EVALUATION: dict[str, JsonValue] = {
    "task": "score",
    "records": [
        {"response": EXAMPLE_RESPONSE, "reference": EXAMPLE_REFERENCE, "type": "planning", "level": 1},
        {"response": "Add buffer, then spin.", "reference": EXAMPLE_REFERENCE, "type": "planning"},
    ],
    "options": {"profile": "paper", "by": ["type", "level"]},
}


class ScoreRequest(Contract):
    """Responses to score and the references to score them against."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE_REQUEST, EXAMPLE_STEPS_REQUEST]})

    references: list[Reference] = Field(
        description="A complete Sketch-and-Fill answer, the lines of its <key> section without the tags, or steps; or "
        "alternatives of these, or their list; or a label with `task` and `reference`. Text that begins with a brace "
        "is read as its object. A response counts once for each alternative towards `max_responses`."
    )
    responses: list[StrictStr] = Field(description="What is scored. A response of any content gets a reward.")
    reference_index: list[Annotated[StrictInt, Field(ge=0)]] = Field(
        default=[], description="The reference of each response. Optional with one reference, or one per response."
    )
    config: Overrides = Field(
        default={},
        description="Settings to override for this request. max_response_bytes and max_steps can only be lowered.",
    )
    configs: list[Overrides] = Field(
        default_factory=list,
        min_length=1,
        max_length=64,
        description="Further configurations, each like `config` and independent of it: the reply's `configs` has a "
        "column of rewards for each. A response counts once for each of them towards `max_responses`.",
    )
    include: list[Literal["components", "advantages", "steps"]] = Field(
        default=[], description="Further columns of the reply."
    )
    task: Literal["score"] = Field(default="score", description="The reward to give.")
    groups: list[StrictStr | StrictInt] = Field(
        default=[],
        description="The group of each response, such as its prompt: advantages are computed within groups. Without "
        "it, responses with the same reference are a group.",
    )


class TaskRewardRequest(Contract):
    """Responses to score by the reward of another task, or each by the reward of its own."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE_MIXED_REQUEST]})

    references: list[Any] = Field(
        description="Records of the task without their response, as objects or as JSON text; see GET /v1/tasks."
    )
    responses: list[StrictStr] = Field(description="What is scored. A response of any content gets a reward.")
    reference_index: list[Annotated[StrictInt, Field(ge=0)]] = Field(default=[], description="As for SCORE.")
    config: dict[str, Any] = Field(
        default={},
        description="Options of the reward; GET /v1/tasks has their schema. With a task for each response: settings of "
        "SCORE, and options of other tasks by the name of the task.",
    )
    include: list[Literal["components", "advantages", "steps"]] = Field(
        default=[], description="Further columns of the reply."
    )
    task: TaskName | list[TaskName] = Field(
        description="Name of a task of GET /v1/tasks that has a reward, or one for each response. Every reply then has "
        "the components of all tasks, 0 where a task lacks one."
    )
    groups: list[StrictStr | StrictInt] = Field(default=[], description="As for SCORE.")


class StepResult(Contract):
    """One step of a response. Positions are code points of the response, counted from 0."""

    start: int = Field(description="Where the step's line in <key> begins.")
    end: int = Field(description="After its last code point.")
    orc_start: int = Field(description="Where its step in <orc> begins.")
    orc_end: int = Field(description="After its last code point.")
    coverage: float = Field(description="The share of the step's words found in its prose.")
    reference: int = Field(description="The step of the reference that it is matched with, from 0; -1 for none.")
    value: float = Field(description="What it adds to the sum of `content`: 0 without a match.")


class SharedStep(Contract):
    """A step under a further configuration; its places and coverage are those of the same step in the reply's `steps`.

    They are here too if the configurations read the texts differently (`think_prefilled`, `max_response_bytes`,
    `max_steps`, `coverage`).
    """

    reference: int = Field(description="As in `steps`.")
    value: float = Field(description="As in `steps`.")
    start: int | None = None
    end: int | None = None
    orc_start: int | None = None
    orc_end: int | None = None
    coverage: float | None = None


SharedStepColumn = Annotated[
    list[list[SharedStep]] | None,
    Field(description="What the steps have of their own under this configuration; only if `include` names them."),
]
StepColumn = Annotated[
    list[list[StepResult]] | None,
    Field(description="The steps of each response, empty if it has no valid ones; only if `include` names it."),
]
AlternativeColumn = Annotated[
    list[int] | None,
    Field(description="The alternative of its reference that counted for each response; only with `steps`."),
]


class Components(Contract):
    """The components of the reward, one column each."""

    format: list[float] = Field(description="1 if the response passes the format gate.")
    consistency: list[float] = Field(description="1 if the response passes the consistency gate.")
    coverage: list[float] = Field(description="Minimum over the steps of the share of words found in the prose.")
    step_gap: list[float] = Field(description="f: agreement of the numbers of steps.")
    mean_words: list[float] = Field(description="Mean number of words of a prose step.")
    scale: list[float] = Field(description="The step scale, f / g.")
    order: list[float] = Field(description="Agreement of the action sequences.")
    content: list[float] = Field(description="Agreement of the anchored steps' objects and parameters.")
    semantics: list[float] = Field(description="Order and content combined.")
    anchors: list[float] = Field(description="Number of anchored pairs of steps.")
    score: list[float] = Field(description="SCORE, before the reward scale.")
    quantity_errors: list[float] = Field(
        description="Wrong quantities of the anchored pairs; 0 unless `quantity_error_factor` is below 1."
    )


class ConfigScores(Contract):
    """The same columns under one configuration."""

    config_id: str
    signature: str
    rewards: list[float]
    reasons: list[str]
    components: Components | None = Field(default=None, description="Only if `include` names it.")
    advantages: list[float] | None = Field(default=None, description="Only if `include` names it.")
    steps: SharedStepColumn = None
    alternative: AlternativeColumn = None


class ScoreReply(Contract):
    """Columns in the order of the request's responses; all numbers are finite."""

    rewards: list[float]
    reasons: list[str] = Field(description="`ok`, or why the response could not be scored.")
    components: Components | dict[str, list[float]] | None = Field(
        default=None, description="Only if `include` names it; every other task has a fixed set of its own."
    )
    advantages: list[float] | None = Field(default=None, description="Only if `include` names it.")
    steps: StepColumn = None
    alternative: AlternativeColumn = None
    config_id: str = Field(description="Digest of the effective configuration and the rules' version.")
    signature: str = Field(description="The same in one readable line, to be quoted beside the rewards.")
    configs: list[ConfigScores] | None = Field(
        default=None,
        description="The results of each of the request's `configs`, in their order; only if there are any.",
    )


class IssueModel(Contract):
    """One error of the request."""

    path: str = Field(examples=["references[3]"])
    reason: str = Field(examples=["bad_step_json"])
    detail: str = Field(examples=["the braces hold no valid JSON object"])


class ProblemDocument(Contract):
    """The form of every error (RFC 9457). It never quotes the request's texts."""

    type: str = Field(examples=["/docs#problem-invalid-request"])
    title: str = Field(examples=["Invalid request"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["1 error; nothing was scored. See `errors`."])
    instance: str = Field(
        description="The request's id, as in X-Request-ID, percent-encoded.",
        json_schema_extra={"format": "uri-reference"},
    )
    errors: list[IssueModel] = Field(description="The errors of the request, at most 100.")
    error_count: int = Field(description="Number of errors, including those that `errors` omits.")


class Limits(Contract):
    """The limits of one request: bytes, responses and seconds."""

    max_body_bytes: int
    max_responses: int
    max_reference_bytes: int
    deadline_seconds: float


class ConfigReply(Contract):
    """The default configuration, for requests without `config`."""

    version: str
    rules_version: str
    config_id: str
    signature: str
    config: ScoreSettings
    limits: Limits
    schema_: dict[str, Any] = Field(alias="schema", description="JSON schema of the settings.")


class EvaluateRequest(Contract):
    """Records of a benchmark, each with a model's answer, to evaluate by the metrics of a task."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE_EVALUATION]})

    task: StrictStr = Field(
        default="score", description="Name of a task of GET /v1/tasks.", json_schema_extra={"enum": list(TASKS)}
    )
    records: list[dict[str, Any]] = Field(description="Records of that task; GET /v1/tasks has their schema.")
    options: dict[str, Any] = Field(default={}, description="Options of that task; GET /v1/tasks has their schema.")


class FailedRecord(Contract):
    """A record without (some of) its metrics."""

    record: int = Field(description="Index of the record in the request, from 0.")
    reason: str


class StepErrorReply(Contract):
    """Why a step of an answer counts as an error."""

    step: int = Field(description="Its number, from 1.")
    error: str = Field(
        description="`action`: another one; `parameters`: other names; `sources`: a value is another step's output; "
        "`missing` or `additional`: so are this step and all after it."
    )
    parameters: list[str] = Field(description="The parameters that it is about.")


class EvaluateReply(Contract):
    """Columns in the order of the records, and their aggregates."""

    task: str
    signature: str = Field(
        description="Task, options and versions of the libraries that affect the values, in one line."
    )
    per_record: dict[str, list[float | None]] = Field(description="By metric; null if a record has no value.")
    aggregate: dict[str, float | int | None] = Field(description="`count`, and every metric over all records.")
    by: dict[str, dict[str, dict[str, float | int | None]]] = Field(
        description="The aggregates of each group: for every field of `options.by` and each of its values."
    )
    failed: list[FailedRecord] = Field(description="Records without values, with the reason.")
    unavailable: dict[str, str] = Field(
        default={}, description="Metrics that this service cannot compute, with what is missing; omitted if empty."
    )
    counts: dict[str, int] = Field(
        default={},
        description="Number of records in each value of `aggregate` that covers fewer than `count`; omitted if empty.",
    )
    counts_by: dict[str, dict[str, dict[str, int]]] = Field(
        default={}, description="The same for `by`; omitted with `counts`."
    )
    step_errors: list[list[StepErrorReply]] = Field(
        default=[], description="The errors of each record's steps, in sgi.wet_experiment; else omitted."
    )
    warnings: list[str] = Field(
        default=[],
        description="Warnings about values that may mislead, such as a field of `options.by` "
        "that no record has; omitted if empty.",
    )


class MetricDescription(Contract):
    """One metric of a task."""

    name: str
    title: str = Field(description="Heading in tables.")
    description: str
    per_record: bool = Field(description="False if only a set of records has a value.")
    low: float | None = Field(description="Minimum; null if unbounded.")
    high: float | None = Field(description="Maximum; null if unbounded.")
    percent: bool = Field(description="True if the benchmark reports it as a percentage.")
    less_is_better: bool
    default: bool = Field(description="False if it is computed only when `options.metrics` names it.")
    profiles: list[str] = Field(description="The profiles of the task that have it; empty if all have it.")


class RewardDescription(Contract):
    """The reward that a task gives in POST /v1/score."""

    number: int = Field(description="The task's number where numbers are needed, as in `score_task`.")
    description: str
    reasons: dict[str, str] = Field(description="Every possible reason of a response, with its meaning.")
    reason_codes: dict[str, int] = Field(description="Their numbers, as in `score_reason_code`: each task has its own.")
    components: list[str] = Field(description="What `include: [components]` adds.")
    passed_if: list[str] = Field(description="The components that are all 1 for a response that passes.")
    config: dict[str, Any] = Field(description="JSON schema of the request's `config`.")


class TaskDescription(Contract):
    """A task of POST /v1/evaluate, and of POST /v1/score if it has a reward."""

    name: str
    description: str
    record: dict[str, Any] = Field(description="JSON schema of a record.")
    options: dict[str, Any] = Field(description="JSON schema of the options of an evaluation.")
    metrics: list[MetricDescription]
    failures: dict[str, str] = Field(description="Every reason why a record may have no values.")
    reward: RewardDescription | None = Field(description="Null if the task has no reward.")


class TasksReply(Contract):
    """Every task."""

    tasks: list[TaskDescription]


class StatusReply(Contract):
    """Reply of a probe."""

    status: Literal["live", "ready"]


class VersionReply(Contract):
    """The version of the service."""

    version: str


class IndexReply(Contract):
    """Name and version of the service, and links to its routes."""

    name: str
    version: str
    links: dict[str, str]
