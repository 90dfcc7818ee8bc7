"""The complete twin: text in, every component out (docs/rules.md)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .align import anchors
from .alternatives import first_best, listed
from .gates import Reading, read_response
from .reward import complete_settings, reward, total
from .scale import mean_words, step_gap, step_scale
from .sections import find_sections
from .semantics import matches, step_semantics
from .step_column import step_column
from .steps import BadStepError, KeyStep, key_step, lines, step_from_fields

MAX_REFERENCE_BYTES = 262144
MAX_REFERENCE_STEPS = 1024
SURROGATE = re.compile("[\ud800-\udfff]")

ParsedReference = list[KeyStep]
Alternatives = tuple[ParsedReference, ...]
UnreadableReferenceError = BadStepError  # carries the reason (docs/rules.md, Reasons)


def encodable(text: str) -> str:
    """Replace surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return SURROGATE.sub("\ufffd", text)


def parse_reference(
    reference: str | Mapping[str, Any], settings: dict[str, Any] | None = None
) -> ParsedReference | Alternatives:
    """Read a reference: an answer, its key lines, {"steps": [...]}, or {"any_of": [...]} of these.

    Raises UnreadableReferenceError; its reason is that of the first unreadable alternative.
    """
    max_steps = max(complete_settings(settings)["max_steps"], MAX_REFERENCE_STEPS)
    if isinstance(reference, Mapping) and "any_of" in reference:
        return tuple(parse_reference(alternative, settings) for alternative in listed(reference["any_of"]))
    if isinstance(reference, str):
        text = encodable(reference)
        if len(text.encode()) > MAX_REFERENCE_BYTES:
            raise UnreadableReferenceError("too_long")
        sections = None if text.lstrip(" \t\n\r").startswith("{") else find_sections(text)
        rows, read = lines(sections.key if sections else text), key_step
    else:
        rows, read = reference["steps"], step_from_object
    if len(rows) > max_steps:
        raise UnreadableReferenceError("too_long")
    if not rows:
        raise UnreadableReferenceError("no_steps")
    return [read(step) for step in rows]


def step_from_object(fields: Any) -> KeyStep:
    """Read a step given as an object instead of a line; raises BadStepError."""

    def replaced(value: Any) -> Any:
        if isinstance(value, list):
            return [replaced(element) for element in value]
        return encodable(value) if isinstance(value, str) else value

    return step_from_fields("", {k: replaced(v) for k, v in fields.items()} if isinstance(fields, dict) else fields)


def score_one(
    response: str,
    reference: ParsedReference | Alternatives,
    settings: dict[str, Any] | None = None,
    steps: bool = False,
) -> dict[str, Any]:
    """Return every component of one response, its score, reward and reason. Any text has a result.

    With `steps`, also its column of steps and the number of the alternative that counts.
    """
    settings = complete_settings(settings)
    text = encodable(response)
    read = read_response(text, settings)
    alternatives = reference if isinstance(reference, tuple) else (reference,)
    results = [result_of(read, alternative, settings) for alternative in alternatives]
    best = first_best([result["reward"] for result in results])
    if not steps:
        return results[best]
    return results[best] | {"alternative": best, "steps": steps_of(text, read, alternatives[best], settings)}


def result_of(read: Reading, reference: ParsedReference, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the components, reason and reward of a response that has been read, against one reference."""
    result: dict[str, Any] = {
        "format": read.format,
        "consistency": read.consistency,
        "coverage": read.coverage,
        "step_gap": 0.0,
        "mean_words": 0.0,
        "scale": 0.0,
        "order": 0.0,
        "content": 0.0,
        "semantics": 0.0,
        "anchors": 0,
        "score": 0.0,
        "quantity_errors": 0,
        "reason": read.reason,
    }
    if read.reason == "ok":
        f, mean = step_gap(len(read.key), len(reference)), mean_words(read.orc)
        result |= {"step_gap": f, "mean_words": mean, "scale": step_scale(f, mean, settings)}
        result |= step_semantics(read.key, reference, settings)
        result["score"] = total(result["scale"], result["semantics"], result["quantity_errors"], settings)
    result["reward"] = reward(result["score"], settings)
    return result


def steps_of(text: str, read: Reading, reference: ParsedReference, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the column of steps of one response; it is empty if a check before the coverage failed."""
    if not read.coverages:
        return []
    W = anchors([step.action for step in read.key], [step.action for step in reference])
    pairs = matches(read.key, reference, W, settings)
    return step_column(text, read.coverages, pairs, settings["think_prefilled"])


def score(
    responses: Sequence[str],
    references: Sequence[str | Mapping[str, Any]],
    reference_index: Sequence[int] | None = None,
    settings: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Score a batch, each reference parsed once; without an index, one reference for all or one for each."""
    parsed = [parse_reference(reference, settings) for reference in references]
    if reference_index is None:
        reference_index = [0] * len(responses) if len(parsed) == 1 else range(len(responses))
    pairs = zip(responses, reference_index, strict=True)
    return [score_one(response, parsed[k], settings) for response, k in pairs]


def plain_score(
    responses: Sequence[str],
    references: Sequence[str | Mapping[str, Any]],
    reference_index: Sequence[int] | None = None,
    **settings: Any,
) -> list[float]:
    """Return the rewards alone, as the plain-Python baseline of the benchmark."""
    return [result["reward"] for result in score(responses, references, reference_index, settings)]
