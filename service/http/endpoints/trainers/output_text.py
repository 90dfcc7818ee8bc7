"""The text that a model wrote, from the output of an OpenAI response object."""

from __future__ import annotations

from typing import Any

from ....errors import Issue
from .json_document import Document, MemberNames, PythonReader

__all__ = ["output_text"]

RESPONSE_NAMES = MemberNames("output")
ITEM_NAMES = MemberNames("type", "role", "content", "summary")
PART_NAMES = MemberNames("type", "text")


def output_text(reader: Document | type[PythonReader], response: Any) -> tuple[str, list[Issue]]:
    """Return the concatenated text parts of the assistant's messages, and every issue.

    `response` is a span of a document or a Python object. Reasoning that a parser has separated from the text is put
    back between <think> and </think>. Items and parts of other types (tool calls and results, refusals) are ignored.
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
    reader: Document | type[PythonReader], parts: Any, path: str, kinds: tuple[str, ...], issues: list[Issue]
) -> str:
    """Return the concatenated texts of the parts of these kinds; append errors to `issues`."""
    whole = reader.text(parts)
    if whole is not None:
        return whole
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
