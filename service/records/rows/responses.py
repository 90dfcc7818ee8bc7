"""Answers of models in the files of other programs: the responses of one record, and what tells which row they answer.

| file | a record is known by |
|---|---|
| rows; completions that TRL logs | a usual name of the response (`fields`), or a chat that ends with an answer |
| OpenAI's batch API, vLLM's batch runner | `custom_id` |
| generations that verl dumps | `input`, `output` and `step` |
| lm-eval with `--log_samples` | `doc` and `resps` |
| Inspect's logs as JSON | `epoch` and `output`, a sample of the log |
| verifiers' `results.jsonl` | `example_id`, and a chat in `completion` |
| verifiers' `traces.jsonl` | `traces` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from ...messages import message_text
from ...tasks.scirecipe_records import prompt_text
from .fields import CONVERSATION_NAMES, RESPONSE_NAMES, ROLES, asking_of, field_at
from .forms import unfolded
from .rows import Fault, Record

SEVERAL_NAMES = ("responses", "completions", "outputs")
"""Fields that may hold a list of responses to one prompt."""


class Sample(NamedTuple):
    """One response of a model, and what tells which row it answers."""

    response: str
    id: str | None = None
    further: Mapping[str, Any] = {}
    """Further fields of the record, such as labels of people."""
    manifest: str | None = None
    """The digest of the manifest's rows that it answers, if the record names one."""
    prompt: str = ""
    """The text of the prompt, of a chat all messages, or as a chat template writes it; empty if unknown."""
    reference: Any = None
    """What the record's program compared it with; None if unknown."""


class UnreadableResponse(Exception):
    """A record without a response that can be read."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = Fault(reason, detail)


def samples_of(record: Record) -> list[Sample] | Fault:
    """Return the responses in one record of a file, or why it has none."""
    return record.fault or samples_in(record.value)


def samples_in(value: Any) -> list[Sample] | Fault:
    """Return the responses in the value of a record, or why it has none."""
    if not isinstance(value, dict):
        return Fault("not_an_object", "the row is not a JSON object")
    read = next((read for names, read in PROGRAMS if all(value.get(name) is not None for name in names)), of_row)
    try:
        return read(value)
    except UnreadableResponse as error:
        return error.fault


def of_row(value: Mapping[str, Any]) -> list[Sample]:
    """Read a row: one response, or a list of them."""
    row = unfolded(value)
    name, texts = responses_in(row)
    further = {key: part for key, part in value.items() if key not in (name, "id", "manifest")}
    asking = asking_of(row)
    prompt = "" if asking is None else prompt_text(list(asking.messages))
    about = id_in(row.get("id")), further, value.get("manifest"), prompt, row.get("reference")
    return [Sample(text, *about) for text in texts]


def responses_in(row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the field with the response or the responses of a row, and their texts."""
    for name in RESPONSE_NAMES:
        if (text := answer_in(row.get(name))) is not None:
            return name, [text]
    for name in SEVERAL_NAMES:
        if isinstance(row.get(name), list) and row[name]:
            texts = list(map(answer_in, row[name]))
            without = [k for k, text in enumerate(texts) if text is None]
            if without:
                raise UnreadableResponse(
                    "not_a_string", f"{name}[{without[0]}] is neither a text nor a chat with an answer"
                )
            return name, [text for text in texts if text is not None]
    for name in CONVERSATION_NAMES:
        if isinstance(turns := row.get(name), list) and turns and (text := answer_in(turns[-1:])) is not None:
            return name, [text]
    names = ", ".join(map(repr, (*RESPONSE_NAMES, *SEVERAL_NAMES, *CONVERSATION_NAMES)))
    raise UnreadableResponse(
        "missing_field", f"no response: none of {names} has one, and no other program writes such rows"
    )


def of_batch(value: Mapping[str, Any]) -> list[Sample]:
    """Read a line that OpenAI's batch API or vLLM's batch runner has written."""
    identifier = id_in(value["custom_id"])
    response = value.get("response")
    if isinstance(response, str):
        return of_row({**value, "id": identifier})
    body = field_at(value, "response.body")
    error = value.get("error") or field_at(value, "response.body.error")
    status = field_at(value, "response.status_code")
    if error or (isinstance(status, int) and status >= 400):
        raise failed(f"the request {identifier}", error or f"status {status}")
    choices = body.get("choices") if isinstance(body, dict) else None
    return [Sample(text, identifier) for text in chosen(choices, f"the request {identifier}")]


def of_verl(value: Mapping[str, Any]) -> list[Sample]:
    """Read a line of verl's dumps of generations, which have no id."""
    if not isinstance(value["output"], str) or not isinstance(value["input"], str):
        return of_row(value)
    further = {key: part for key, part in value.items() if key not in ("input", "output", "gts", "id")}
    return [Sample(value["output"], id_in(value.get("id")), further, None, value["input"], value.get("gts"))]


def of_lm_eval(value: Mapping[str, Any]) -> list[Sample]:
    """Read a line of lm-eval's samples: the model's own responses, not what a filter made of them."""
    if value.get("filter") not in (None, "none"):
        detail = "lm-eval logs the same responses for each filter; only those of the filter 'none' are read"
        raise UnreadableResponse("filtered", f"these are of the filter {value['filter']!r}: {detail}")
    document = unfolded(value["doc"]) if isinstance(value["doc"], dict) else {}
    requests = value["resps"]
    if not isinstance(requests, list) or len(requests) != 1:
        raise UnreadableResponse("wrong_type", "resps: responses to one request are needed, in a list")
    texts = requests[0] if isinstance(requests[0], list) else requests
    if not texts or not all(isinstance(text, str) for text in texts):
        raise UnreadableResponse("not_a_string", "resps: a response is not a text")
    prompt = field_at(value, "arguments.gen_args_0.arg_0")
    prompt = prompt if isinstance(prompt, str) else ""
    return [Sample(text, id_in(document.get("id")), {}, None, prompt, value.get("target")) for text in texts]


def of_inspect(value: Mapping[str, Any]) -> list[Sample]:
    """Read a sample of an Inspect log."""
    if not isinstance(value["output"], dict):
        return of_row(value)
    identifier = id_in(value.get("id"))
    name = f"the sample {identifier}, epoch {value['epoch']}"
    if value.get("error"):
        raise failed(name, value["error"])
    texts = chosen(value["output"].get("choices"), name)
    if len(texts) == 1 and (whole := whole_reply(value, name)) is not None:
        texts = [whole]
    return [Sample(text, identifier) for text in texts]


def whole_reply(sample: Mapping[str, Any], name: str) -> str | None:
    """Return the reply in a sample of Inspect as the model wrote it; None if the choice has it.

    Inspect takes a <think> block out of a reply, but its place matters to SCORE. Assay's scorer keeps the whole reply,
    and so do the events of the model.
    """
    if isinstance(scored := field_at(sample, "scores.assay.answer"), str):
        return scored
    content = sample["output"]["choices"][0]["message"]["content"]
    if not isinstance(content, list) or all(part.get("internal") != "think" for part in content):
        return None
    for event in reversed(sample.get("events") or ()):
        if event.get("event") == "model":
            replies = field_at(event, "call.response.choices") or [{}]
            text = field_at(replies[0], "message.content")
            if isinstance(text, str):
                return str((sample.get("attachments") or {}).get(text.removeprefix("attachment://"), text))
            break
    raise UnreadableResponse(
        "no_response", f"{name}: Inspect took <think> out of the reply; run it without --no-log-model-api"
    )


def of_results(value: Mapping[str, Any]) -> list[Sample]:
    """Read a line of the results of verifiers before version 0.4."""
    info = value.get("info")
    if isinstance(info, str):
        try:
            info = orjson.loads(info)
        except orjson.JSONDecodeError:
            info = None
    name = f"the rollout of example {value['example_id']}"
    if value.get("error"):
        raise failed(name, value["error"])
    if (text := answer_in(value.get("completion"))) is None:
        raise UnreadableResponse("no_response", f"{name} has no answer in its completion")
    about = {"info": info} if isinstance(info, dict) else {}
    identifier = next((part for path in ("info.assay.id", "info.id") if (part := field_at(about, path))), None)
    asking = asking_of(value, ("prompt",))
    prompt = "" if asking is None else prompt_text(list(asking.messages))
    return [Sample(text, id_in(identifier), {}, None, prompt, value.get("answer"))]


def of_traces(value: Mapping[str, Any]) -> list[Sample]:
    """Read a line of the traces of verifiers: the last message that the model wrote in each."""
    samples = []
    if not isinstance(value["traces"], list):
        raise UnreadableResponse("wrong_type", "traces is not a list")
    for trace in value["traces"]:
        identifier = id_in(field_at(trace, "task.data.id"))
        name = f"the trace of {identifier or 'a row without an id'}"
        if errors := trace.get("errors"):
            raise failed(name, errors[-1])
        nodes = [node for node in trace.get("nodes") or () if node.get("sampled")]
        text = answer_in([node.get("message") for node in nodes])
        if text is None:
            raise UnreadableResponse("no_response", f"{name} has no answer")
        reference = field_at(trace, "task.data.reference")
        samples.append(Sample(text, identifier, reference=reference))
    return samples


PROGRAMS: Sequence[tuple[tuple[str, ...], Callable[[Mapping[str, Any]], list[Sample]]]] = (
    (("custom_id",), of_batch),
    (("input", "output", "step"), of_verl),
    (("doc", "resps"), of_lm_eval),
    (("epoch", "output"), of_inspect),
    (("example_id", "completion"), of_results),
    (("traces",), of_traces),
)
"""The fields by which records of each program are known, and what reads them."""


def id_in(value: Any) -> str | None:
    """Return the id of a record as text; raises Unreadable if it is neither a text nor a whole number."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise UnreadableResponse("wrong_type", "the id is neither a text nor a whole number")


def chosen(choices: Any, name: str) -> list[str]:
    """Return the texts of the choices in a reply; raises Unreadable without choices, and if one has no text."""
    if not isinstance(choices, list) or not choices:
        raise UnreadableResponse("no_response", f"{name} has no choices")
    texts = []
    for number, choice in enumerate(choices):
        message = choice.get("message", choice.get("text")) if isinstance(choice, dict) else None
        if (text := answer_in([message] if isinstance(message, dict) else message)) is None:
            raise UnreadableResponse("no_response", f"{name}: choices[{number}] has no text")
        texts.append(text)
    return texts


def answer_in(value: Any) -> str | None:
    """Return a text, or the last message of the assistant in a chat; None if there is neither."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        return None
    roles = ((message.get("role", message.get("from")), message) for message in value)
    answers = [message for role, message in roles if ROLES.get(role, role) == "assistant"]
    return message_text(answers[-1]) if answers else None


def failed(name: str, error: Any) -> UnreadableResponse:
    """Return the error about a request or a rollout that failed, with what its program says of it."""
    names = ("message", "error_chain_repr", "error", "type")
    parts = (error.get(name) for name in names) if isinstance(error, dict) else (error,)
    said = next((part for part in parts if isinstance(part, str)), None) or orjson.dumps(error, default=str).decode()
    return UnreadableResponse("request_failed", f"{name} failed: {' '.join(said.split())[:MAX_ERROR]}")


MAX_ERROR = 200
"""Characters that are repeated of another program's error."""
