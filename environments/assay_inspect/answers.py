"""The answer of a model, as it wrote it."""

from __future__ import annotations

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import ContentReasoning
from inspect_ai.solver import TaskState

from assay_client.adapters.common import completion_text

__all__ = ["answer_of"]

THINK = "think"
ATTACHMENT = "attachment://"


def answer_of(state: TaskState) -> str:
    """Return the text of a sample's answer, with its thoughts between <think> and </think>.

    Inspect takes a <think> block out of an answer, but its place matters to SCORE: then the model's reply is the text.
    """
    content = state.output.message.content if state.output.choices else ""
    thoughts = [] if isinstance(content, str) else [part for part in content if isinstance(part, ContentReasoning)]
    if any(part.internal == THINK for part in thoughts):
        return reply_text()
    reasoning = "\n".join(part.reasoning for part in thoughts)
    return completion_text({"content": state.output.completion, "reasoning_content": reasoning})


def reply_text() -> str:
    record = transcript()
    for event in reversed(record.events):
        if isinstance(event, ModelEvent):
            if event.call is None or event.call.response is None:
                break
            choices = event.call.response["choices"]
            text = str(choices[0]["message"]["content"])
            return record.attachments[text.removeprefix(ATTACHMENT)] if text.startswith(ATTACHMENT) else text
    raise ValueError("the text of the model's reply was not kept: run without --no-log-model-api, and without a cache")
