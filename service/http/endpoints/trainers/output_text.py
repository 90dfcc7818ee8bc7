"""The text that a model wrote, from the output of an OpenAI response object."""

from __future__ import annotations

from typing import Any

from ....errors import Issue
from .json_document import Built, Document, Names

__all__ = ["output_text"]

RESPONSE_NAMES = Names("output")
ITEM_NAMES = Names("type", "role", "content", "summary")
PART_NAMES = Names("type", "text")


def output_text(reader: Document | type[Built], response: Any) -> tuple[str, list[Issue]]:
    """The text parts of the assistant's messages, one after the other, and every offending place.

    `response` is a span of a document, or built. Where a parser has taken the reasoning out of the text, it is put back
    between <think> and </think>. Items and parts of other types (tool calls and their results, refusals) are no text.
    """
    members = reader.members(response, RESPONSE_NAMES)
    if members is None:
        return "", [Issue("response", "wrong_type", "must be an object")]
    items = reader.elements(members[0], "response.output")
    if items is None:
        return "", [Issue("response.output", "wrong_type", "must be an array")]
    texts: list[str] = []
    issues: list[Issue] = []
    for k, item in enumerate(items):
        path = f"response.output[{k}]"
        found = reader.members(item, ITEM_NAMES)
        if found is None:
            issues.append(Issue(path, "wrong_type", "must be an object"))
            continue
        kind, role, content, summary = found
        if reader.text(kind) == "reasoning":
            thoughts = parts_text(reader, summary, f"{path}.summary", ("summary_text",), issues)
            texts.append(f"<think>{thoughts}</think>")
        elif reader.text(kind) in ("message", None) and reader.text(role) in ("assistant", None):
            texts.append(parts_text(reader, content, f"{path}.content", ("output_text",), issues))
    return "".join(texts), issues


def parts_text(
    reader: Document | type[Built], parts: Any, path: str, kinds: tuple[str, ...], issues: list[Issue]
) -> str:
    """The texts of the parts of these kinds; adds what is wrong with them to `issues`."""
    plain = reader.text(parts)
    if plain is not None:
        return plain
    elements = reader.elements(parts, path)
    if elements is None:
        issues.append(Issue(path, "wrong_type", "must be a string or an array of parts"))
        return ""
    texts = []
    for k, part in enumerate(elements):
        found = reader.members(part, PART_NAMES)
        if found is None:
            issues.append(Issue(f"{path}[{k}]", "wrong_type", "must be an object"))
        elif reader.text(found[0]) in kinds:
            text = reader.text(found[1])
            if text is None:
                issues.append(Issue(f"{path}[{k}].text", "wrong_type", "must be a string"))
            texts.append(text or "")
    return "".join(texts)
