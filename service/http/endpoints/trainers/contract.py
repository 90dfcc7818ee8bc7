"""The contract of the trainers' routes as pydantic models, used for OpenAPI only."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, StrictStr, create_model

from .....kernels.score import COMPONENTS
from ....contract import EXAMPLE_COMPONENTS, EXAMPLE_REFERENCE, EXAMPLE_RESPONSE, AnyOf, Steps
from ....rewards.registry import TASK_COMPONENTS
from .dialects import FREQUENT_REASONS, NUMBERS, TASK_NUMBERS
from .eval_protocol import evaluation_of
from .roll import request_id_of, result_of

Reference = (
    StrictStr
    | Steps
    | AnyOf
    | Annotated[list[Any], Field(min_length=1, max_length=16)]
    | StrictBool
    | Annotated[dict[str, Any], Field(min_length=1)]
)
"""A reference of SCORE as text, steps or alternatives, or of another task as a record or the answer itself; or a label,
which names its task."""

DESCRIPTIONS = {
    "score_task": "The number of the row's task in GET /v1/tasks, 0 for SCORE: an identifier, not a quantity.",
    "score_reason_code": "0 for ok, else the number of the reason within the row's task: an identifier, too.",
    "score_readable": "1 for ok, else 0: the mean is the share of readable responses.",
    **{f"score_reason_{name}": f"1 for SCORE's reason `{name}`, else 0." for name in FREQUENT_REASONS},
    "score_passed": "1 for a success, else 0; for SCORE if both gates are passed, and order is 1.",
    **{f"score_{name}": f"The component `{name}`." for name in TASK_COMPONENTS},
}


class Lenient(BaseModel):
    """A trainer's request, which may have further fields."""

    model_config = ConfigDict(extra="allow")


class OpenRlhfRequest(Lenient):
    """Rollouts of OpenRLHF."""

    query: list[StrictStr] = Field(description="Prompt and response in one text, with special tokens.")
    prompts: list[StrictStr] = Field(description="The prompt of each query, in which its beginning may be truncated.")
    labels: list[Reference] = Field(description="The reference of each query.")


class SlimeRequest(Lenient):
    """A rollout of slime."""

    prompt: JsonValue = Field(default=None, description="Text or chat messages; ignored.")
    response: StrictStr = Field(description="The text to score; it may contain special tokens.")
    label: Reference = Field(description="The reference.")


class ResponseObject(Lenient):
    """An OpenAI response object."""

    output: list[dict[str, Any]] = Field(
        description="The `output_text` parts of the assistant's `message` items, concatenated, are scored; the summary "
        "of a `reasoning` item is inserted between <think> and </think>. Other items are ignored."
    )


class VerifyRequest(Lenient):
    """A data-set row with the model's answer, as NeMo Gym's agents send it."""

    responses_create_params: dict[str, Any] = Field(description="Returned unchanged.")
    response: ResponseObject = Field(description="The text parts of its output are scored; returned unchanged.")
    reference: Reference = Field(description="The reference; `?reference_field=` names another field of the row.")


class SessionRequest(Lenient):
    """A data-set row, or the session that an environment server of NeMo Gym names."""

    resources_session_id: JsonValue = Field(
        default=None, description="The caller's name of the session; ignored if it is not a string."
    )


class AggregateRequest(Lenient):
    """The replies of /verify of all rollouts, without their heavy fields."""

    verify_responses: list[dict[str, Any]]


def numbers_model(name: str, documentation: str, kind: Any, **first: Any) -> type[BaseModel]:
    fields: dict[str, Any] = {number: (kind, Field(description=DESCRIPTIONS[number])) for number in NUMBERS}
    for number in TASK_NUMBERS[len(NUMBERS) :]:
        description = f"{DESCRIPTIONS[number]} Only if the query or a label names a task."
        fields[number] = (kind | None, Field(None, description=description))
    model: type[BaseModel] = create_model(name, __doc__=documentation, **first, **fields)
    return model


ScoreColumns = numbers_model("ScoreColumns", "The numbers besides the rewards, as one list each.", list[float])
SlimeReply = numbers_model("SlimeReply", "A reward and further numbers.", float, reward=(float, ...))
VERIFIED: dict[str, Any] = {"responses_create_params": (dict[str, Any], ...), "response": (ResponseObject, ...)}
VerifyReply = numbers_model(
    "VerifyReply",
    "Prompt, response and scalar fields of the row, the reward and further numbers.",
    float,
    **VERIFIED,
    reward=(float, ...),
    reward_components=(dict[str, float] | None, Field(None, description="Only if the query asks for it.")),
)
MaskedReply = numbers_model(
    "MaskedReply",
    "The reply for a row with an invalid reference, if the query asks for `on_bad_reference=mask`. Its numbers are "
    "meaningless: 0, and −1 for the task and the reason.",
    float,
    **VERIFIED,
    reward=(float, Field(description="0, which is meaningless.")),
    reward_components=(dict[str, float] | None, Field(None, description="Zeros; only if the query asks for it.")),
    mask_sample=(Literal[True], ...),
    failure_kind=(Literal["assay:bad_reference"], ...),
    failure_reason=(str, Field(description="The errors of the reference.")),
    instance_config=(dict[str, Any], Field(description="`mask_sample` again, where NeMo RL looks for it.")),
)


class RollRequest(Lenient):
    """A rollout of ROLL, whose other fields are ignored."""

    prompt: JsonValue = Field(default=None, description="Ignored.")
    response: StrictStr = Field(description="The text to score.")
    reward_info: dict[str, Any] = Field(description="Its `ground_truth` is the reference.")


class RollReply(BaseModel):
    """The id by which to ask for the result, which it holds."""

    errcode: Literal[0]
    reward_request_id: str


class RollResultRequest(Lenient):
    """The id that a submitted rollout got."""

    reward_request_id: StrictStr


class RollResult(BaseModel):
    """The reward, and each further number as an object."""

    errcode: Literal[0]
    reward_score: float
    dimention_reward_score: dict[str, dict[Literal["score"], float]]


class EvaluationRequest(Lenient):
    """Chat messages, as eval-protocol sends them; its `kwargs` are ignored: settings belong in the query."""

    messages: list[dict[str, Any]] = Field(description="The last one, the assistant's, is scored.")
    ground_truth: Reference = Field(description="The reference.")


class MetricResult(BaseModel):
    """A number besides the reward."""

    score: float
    is_score_valid: Literal[True]
    reason: str


class EvaluationStep(BaseModel):
    """The reward of the only step."""

    step_index: Literal[0]
    base_reward: float


class EvaluationResult(BaseModel):
    """The reward, why it is so, and the further numbers."""

    score: float
    is_score_valid: Literal[True]
    reason: str
    metrics: dict[str, MetricResult]
    step_outputs: list[EvaluationStep]


class OpenRlhfReply(BaseModel):
    """Rewards in the order of the queries, always as lists."""

    rewards: list[float]
    scores: list[float] = Field(
        description="For dynamic filtering: the rewards again, or with `scores=passed` successes."
    )
    extra_logs: ScoreColumns  # type: ignore[valid-type]


class SessionReply(BaseModel):
    """The name of the session, if the request has one. Sessions have no state."""

    resources_session_id: str | None = None


class AliveReply(BaseModel):
    """The service can give rewards."""

    status: str = "ok"


class AggregateReply(BaseModel):
    """Statistics by names such as `mean/reward`."""

    group_level_metrics: list[dict[str, Any]] = Field(description="Statistics of the rollouts of each prompt.")
    agent_metrics: dict[str, float] = Field(
        description="Statistics of all rollouts that have the number; with several tasks of each task too, as "
        "`TASK/mean/NAME`."
    )
    key_metrics: dict[str, float] = Field(description="The means among them.")


PROMPT = "<|im_start|>user\nHow are cells lysed?<|im_end|>\n<|im_start|>assistant\n"
ONE = {
    **dict.fromkeys(NUMBERS, 0.0),
    "score_readable": 1.0,
    "score_passed": 1.0,
    **{f"score_{name}": EXAMPLE_COMPONENTS[name] for name in COMPONENTS},
}
ROW: dict[str, Any] = {"responses_create_params": {"input": [{"role": "user", "content": "How are cells lysed?"}]}}
THOUGHT, ANSWER = EXAMPLE_RESPONSE.removeprefix("<think>").split("</think>")
OUTPUT = [
    {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}]},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    },
]
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "created_at": 0,
    "model": "policy",
    "object": "response",
    "output": OUTPUT,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
STATISTICS = {
    "mean/reward": 0.5,
    "max/reward": 1.0,
    "min/reward": 0.0,
    "median/reward": 0.5,
    "std/reward": 0.7071067811865476,
}
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "/compat/openrlhf": (
        {"query": [PROMPT + EXAMPLE_RESPONSE + "<|im_end|>"], "prompts": [PROMPT], "labels": [EXAMPLE_REFERENCE]},
        {"rewards": [1.0], "scores": [1.0], "extra_logs": {name: [value] for name, value in ONE.items()}},
    ),
    "/compat/slime": (
        {
            "prompt": [{"role": "user", "content": "How are cells lysed?"}],
            "response": EXAMPLE_RESPONSE + "<|im_end|>",
            "label": EXAMPLE_REFERENCE,
        },
        {"reward": 1.0, **ONE},
    ),
    "/compat/roll/submit": (
        {
            "prompt": "How are cells lysed?",
            "response": EXAMPLE_RESPONSE,
            "reward_info": {"ground_truth": EXAMPLE_REFERENCE},
        },
        {"errcode": 0, "reward_request_id": request_id_of({"reward": 1.0, **ONE})},
    ),
    "/compat/eval-protocol/evaluate": (
        {
            "messages": [
                {"role": "user", "content": "How are cells lysed?"},
                {"role": "assistant", "content": EXAMPLE_RESPONSE},
            ],
            "ground_truth": EXAMPLE_REFERENCE,
            "kwargs": {},
        },
        evaluation_of({"reward": 1.0, **ONE}, "ok"),
    ),
    "/compat/nemo-gym/verify": (
        {**ROW, "response": RESPONSE, "reference": EXAMPLE_REFERENCE},
        {**ROW, "response": RESPONSE, "reward": 1.0, **ONE},
    ),
    "/compat/nemo-gym/seed_session": ({**ROW, "reference": EXAMPLE_REFERENCE}, {}),
    "/compat/nemo-gym/close_session": ({"resources_session_id": "session-1"}, {"resources_session_id": "session-1"}),
    "/compat/nemo-gym/aggregate_metrics": (
        {
            "verify_responses": [
                {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0},
                {"_ng_task_index": 0, "_ng_rollout_index": 1, "reward": 0.0},
            ]
        },
        {
            "group_level_metrics": [
                {
                    "_ng_task_index": 0,
                    **STATISTICS,
                    "num_rollouts": 2,
                    "rollout_infos": [
                        {"rollout_id": "0:0", "_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0},
                        {"rollout_id": "0:1", "_ng_task_index": 0, "_ng_rollout_index": 1, "reward": 0.0},
                    ],
                }
            ],
            "agent_metrics": STATISTICS,
            "key_metrics": {"mean/reward": 0.5},
        },
    ),
}
"""A request and its reply, by the path of the route."""

ROLL_RESULT: tuple[Any, Any] = (
    {"reward_request_id": request_id_of({"reward": 1.0, **ONE})},
    result_of({"reward": 1.0, **ONE}),
)
"""The same for the result of a rollout of ROLL, which is asked for with GET."""
