"""Rewards for rLLM, eval-protocol and SageMaker, which give chat messages, or the answer, and a label.

A label that is an object, or its JSON text, may name its task; so may the row beside it.
"""

from __future__ import annotations

try:
    import assay_client  # noqa: F401
except ModuleNotFoundError:  # loaded by its path: the package is around this file or next to it
    import sys
    from pathlib import Path

    sys.path += [str(f) for f in Path(__file__).resolve().parents if (f / "assay_client" / "client.py").is_file()][:1]

import json
from collections.abc import Mapping, Sequence
from typing import Any

from assay_client.adapters.common import column_of, labelled, record_of, required, sync_client, texts_of
from assay_client.adapters.metrics import metrics_of
from assay_client.errors import Issue, invalid
from assay_client.results import Score
from assay_client.tasks import SCORE

__all__ = ["evaluate_episode", "evaluate_messages", "lambda_handler", "lambda_handler_http"]


def evaluate_episode(task: Any, episode: Any) -> tuple[float, bool]:
    """Return the reward of rLLM's episode, and whether it passed; raise AssayError.

    Decorate it with rLLM's `evaluator`, which would take a reward above 0 alone for a correct answer.
    """
    row = task if isinstance(task, Mapping) else getattr(task, "metadata", None) or getattr(task, "data", None) or {}
    score = score_sample(episode_answer(episode), column_of(row), row, record_of(row))
    return score.reward, bool(score.passed)


def episode_answer(episode: Any) -> Any:
    """Return the artifact `answer` of an episode, else the last text of its last trajectory, with the step's thoughts.

    rLLM parses thoughts out of the text of a step: they are put back where the answer is that text.
    """
    trajectory = (list(getattr(episode, "trajectories", None) or ()) or [None])[-1]
    steps = list(getattr(trajectory, "steps", None) or ())[::-1]
    texts = [
        step.output if step.output is not None else getattr(step, "model_response", None) or None for step in steps
    ]
    answer = (getattr(episode, "artifacts", None) or {}).get("answer")
    if answer is None:
        outputs = [text for text in (getattr(trajectory, "output", None), *texts) if text is not None]
        answer = next(filter(None, outputs), outputs[0] if outputs else None)
    for step, text in zip(steps, texts, strict=True):
        thought = getattr(step, "thought", None)
        if thought and thought != text and isinstance(text, str) and text.strip() == str(answer).strip():
            return [{"role": "assistant", "content": answer, "reasoning": thought}]
    return answer


def evaluate_messages(messages: Sequence[Any], ground_truth: Any = None, **row: Any) -> dict[str, Any]:
    """Return the fields of eval-protocol's EvaluateResult, to be decorated with `reward_function`; raise AssayError."""
    score = score_sample(reply_in(messages), ground_truth, row, record_of(row))
    metrics = {
        name: {"score": value, "is_score_valid": True, "reason": score.reason}
        for name, value in metrics_of(score).items()
    }
    about = {"score": score.reward, "is_score_valid": True, "reason": score.reason, "metrics": metrics}
    return about | {"step_outputs": [{"step_index": 0, "base_reward": score.reward}]}


def lambda_handler(event: Sequence[Mapping[str, Any]], context: Any = None) -> list[dict[str, Any]]:
    """Return the rewards of a batch of SageMaker's samples for Nova, from one request; raise AssayError."""
    records = [sample.get("id") for sample in event]
    texts = texts_of([reply_in(sample.get("messages"), sample.get("id")) for sample in event], records, "messages")
    labels = [labelled(sample.get("reference_answer"), sample, sample.get("id")) for sample in event]
    references = [required(label, record, task) for (label, task), record in zip(labels, records, strict=True)]
    tasks = [task or SCORE for _, task in labels] if any(task is not None for _, task in labels) else None
    scores = sync_client().score(texts, references, records=records, task=tasks) if texts else None
    return [
        {
            "id": record,
            "aggregate_reward_score": score.reward,
            "metrics_list": [
                {"name": "reward", "value": score.reward, "type": "Reward"},
                *({"name": name, "value": value, "type": "Metric"} for name, value in metrics_of(score).items()),
            ],
        }
        for record, score in zip(records, scores.rows() if scores else (), strict=True)
    ]


def lambda_handler_http(event: Sequence[Mapping[str, Any]], context: Any = None) -> dict[str, Any]:
    """Return the rewards in the envelope that SageMaker expects for other models than Nova."""
    body = json.dumps(lambda_handler(event))
    return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": body}


def score_sample(completion: Any, label: Any, row: Any, record: object) -> Score:
    """Score one response; concurrent calls share requests."""
    (response,) = texts_of([completion], [record], "messages")
    reference, task = labelled(label, row, record)
    return sync_client().score_one(response, required(reference, record, task), record=record, task=task)


def reply_in(messages: Any, record: object = None) -> list[Any]:
    """Return chat messages as objects; raise InvalidRequest unless the last is the assistant's, with text or parts."""
    listed = messages if isinstance(messages, (list, tuple)) else ()
    chat = [message.model_dump() if hasattr(message, "model_dump") else message for message in listed]
    last = chat[-1] if chat else None
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        detail = "the last message must be an object with the role assistant"
    elif not is_content(last.get("content")):
        detail = "the content of the last message must be text or a list of objects"
    else:
        return chat
    raise invalid([Issue("messages", "wrong_type", detail)], record=record)


def is_content(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(part, Mapping) for part in value)
    return value is None or isinstance(value, str)
