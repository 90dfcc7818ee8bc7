"""Requests as trainers' clients send them, and checks of their replies."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection
from typing import Any, NamedTuple

import httpx

from assay import Scorer
from assay.kernels.score import COMPONENTS
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED

EOS = "<|im_end|>\n"
SYSTEM = (
    "<|im_start|>system\nAnswer with <think>your thoughts</think>\n<key>Step 1: {...}</key>\n<orc>Step 1: …</orc>\n"
    "<note>cautions</note>, nothing else.<|im_end|>\n"
)
PROMPT = SYSTEM + "<|im_start|>user\nHow do I lyse cells at 4 °C?<|im_end|>\n<|im_start|>assistant\n"
"""A prompt with all four tags, as a chat template renders it."""

OPENRLHF, SLIME, GYM = "/compat/openrlhf", "/compat/slime", "/compat/nemo-gym/verify"
SUBMIT, EVALUATE = "/compat/roll/submit", "/compat/eval-protocol/evaluate"
LABEL_PATHS = {
    **{OPENRLHF: "labels[0]", SLIME: "label", GYM: "reference"},
    **{SUBMIT: "reward_info.ground_truth", EVALUATE: "ground_truth"},
}
"""Where requests have the reference."""

PATHS = list(LABEL_PATHS)
"""The routes that give rewards."""

FREQUENT = (
    *("think_not_opened", "missing_sections", "bad_step_line", "bad_step_json", "bad_step_schema"),
    *("step_count", "low_coverage", "added_numbers", "added_words"),
)
REASON_NUMBERS = ("score_task", "score_reason_code", "score_readable", *(f"score_reason_{name}" for name in FREQUENT))
NUMBERS = (*REASON_NUMBERS, "score_passed", *(f"score_{name}" for name in COMPONENTS))
OTHERS = (
    *("accuracy", "brier", "confidence", "exact_match", "kendall_tau", "called_erroneous", "text_similarity"),
    *("order_similarity", "function_precision", "function_recall"),
    *("action_sequence_similarity", "parameter_accuracy"),
)
TASK_NUMBERS = (*NUMBERS, *(f"score_{name}" for name in OTHERS))


class Rollout(NamedTuple):
    response: str
    reference: Any


ROLLOUTS = [
    Rollout(PERFECT, REFERENCE),
    Rollout(PERFECT + EOS, REFERENCE),
    Rollout(SWAPPED + EOS, STEPS),
    Rollout(SWAPPED, PERFECT),
    Rollout("nothing" + EOS, REFERENCE),
    Rollout("", REFERENCE),
    Rollout(PERFECT.replace("<think>", "", 1), REFERENCE),
    Rollout("\ufffd\x00\u2028😀<key>", REFERENCE),
]


def openrlhf(responses: list[str], labels: list[Any], prompt: str = PROMPT, cut: int = 0) -> dict[str, Any]:
    """Return rollouts after a prompt that has lost its first `cut` characters."""
    return {
        "query": [prompt[cut:] + text for text in responses],
        "prompts": [prompt] * len(responses),
        "labels": labels,
    }


def message(*texts: str) -> dict[str, Any]:
    parts = [{"annotations": [], "text": text, "type": "output_text", "logprobs": None} for text in texts]
    return {"id": "msg_1", "content": parts, "role": "assistant", "status": "completed", "type": "message"}


def gym(*output: dict[str, Any], **row: Any) -> dict[str, Any]:
    """Return a row as NeMo Gym's agents send it, with these items of output."""
    usage = {"input_tokens": 900, "output_tokens": 700, "total_tokens": 1600}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": PROMPT}], "max_output_tokens": None},
        "response": {"id": "resp_1", "created_at": 1_790_000_000.25, "output": list(output), "usage": usage},
        **row,
    }


def body_of(path: str, response: Any, reference: Any, **further: Any) -> dict[str, Any]:
    """Return a request of one rollout with further members."""
    if path == GYM:
        return gym(message(response), reference=reference, **further)
    if path == OPENRLHF:
        return openrlhf([response], [reference]) | further
    if path == SUBMIT:  # as `RewardSystemHandler.submit_task` of ROLL sends it
        ids = {"project_id": "p", "experiment_id": "e", "global_step": 0, "data_id": "1", "rollout_id": "1-0"}
        about = {"priority": 1, "prompt": "How?", "reward_manager": [{"plugin_name": "x"}], "timeout": 300}
        return {**ids, **about, "response": response, "reward_info": {"ground_truth": reference}, **further}
    if path == EVALUATE:
        messages = [{"role": "user", "content": "How?"}, {"role": "assistant", "content": response}]
        return {"messages": messages, "ground_truth": reference, "kwargs": {}, **further}
    return {"prompt": PROMPT, "response": response, "label": reference, **further}


def expected_of(rollouts: list[Rollout], **settings: Any) -> list[dict[str, float]]:
    """Return the reward and the other numbers of each rollout, from the scorer in this process."""
    rows = []
    for response, reference in rollouts:
        scores = Scorer(**settings).score([response], [reference])
        reason = scores.reasons[0]
        reasons = {"score_task": 0.0, "score_reason_code": float(scores.reason_codes[0])}
        reasons |= {"score_readable": float(reason == "ok")}
        reasons |= {f"score_reason_{name}": float(reason == name) for name in FREQUENT}
        components = {f"score_{name}": float(column[0]) for name, column in scores.components.items()}
        passed = float(components["score_consistency"] == components["score_order"] == 1.0)
        rows.append({"reward": float(scores.rewards[0]), **reasons, "score_passed": passed, **components})
    return rows


def numbers_in(
    reply: httpx.Response, names: tuple[str, ...] = NUMBERS, row: int = 0, echoed: Collection[str] = ()
) -> dict[str, float]:
    """Return reward and numbers of one row of a reply, after checking their names, their order and their types.

    echoed: further fields of a row that come back, after prompt and response.
    """
    assert reply.status_code == 200, reply.text
    document = reply.json()
    if "extra_logs" in document:
        assert tuple(document) == ("rewards", "scores", "extra_logs")
        columns = {"reward": document["rewards"], **document["extra_logs"]}
        document = {name: column[row] for name, column in columns.items()}
    elif "response" in document:
        assert tuple(document)[: 2 + len(echoed)] == ("responses_create_params", "response", *echoed)
        document = dict(list(document.items())[2 + len(echoed) :])
    elif "reward_request_id" in document:
        assert document["errcode"] == 0
        document = json.loads(base64.urlsafe_b64decode(document["reward_request_id"])[16:])
    elif "metrics" in document:
        metrics, score = document["metrics"], document["score"]
        assert all(metric["is_score_valid"] for metric in (document, *metrics.values()))
        assert document["step_outputs"] == [{"step_index": 0, "base_reward": score}]
        document = {"reward": score, **{name: metric["score"] for name, metric in metrics.items()}}
    assert tuple(document) == ("reward", *names)
    assert all(type(value) is float and math.isfinite(value) for value in document.values())
    return document
