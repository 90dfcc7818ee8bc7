"""Chat messages as text, with the thoughts that a server keeps apart; the client reads them alike, in a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REASONING_NAMES = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message in which servers keep thoughts; the first that has some counts."""

THOUGHTS = ("thinking", "reasoning")
"""Types of the parts of a message that hold thoughts, and the usual names of their text."""


def message_text(message: Mapping[str, Any]) -> str | None:
    """Return the text of a chat message, with thoughts that are apart between <think> tags; None without either."""
    content = message.get("content", message.get("value"))
    text, thoughts = content_of(content)
    fields = (message.get(name) for name in REASONING_NAMES)
    thoughts = next((field for field in fields if isinstance(field, str) and field), thoughts)
    if thoughts and "<think>" not in (text or ""):
        return f"<think>{thoughts}</think>{text or ''}"
    return text


def content_of(content: Any) -> tuple[str | None, str]:
    """Return the text of the content of a message, None without one, and the thoughts among its parts."""
    if not isinstance(content, (list, tuple)) or not all(isinstance(part, Mapping) for part in content):
        return (content if isinstance(content, str) else None), ""
    texts, thoughts = [], []
    for part in content:
        if part.get("type") in THOUGHTS or isinstance(part.get("reasoning"), str):
            thoughts.append(thought_in(part))
        elif isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts) or None, "".join(thoughts)


def thought_in(part: Mapping[str, Any]) -> str:
    """Return the text of a part that holds thoughts, which may have parts of its own; "" if they are encrypted."""
    names = ("summary",) if part.get("redacted") is True else (*THOUGHTS, "text", "content", "summary")
    for name in names:
        text = content_of(part.get(name))[0]
        if text:
            return text
    return ""
