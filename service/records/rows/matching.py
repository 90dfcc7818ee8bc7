"""The rows of a prepared folder that answers without an id belong to, found by their prompts and references."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .fields import Message
from .forms import reference_texts

ANCHOR = 32
"""Characters at both ends of a question by which it is looked for in a longer text."""

PLACE = re.compile(r"(?<!\w)|(?!\w)")
"""A place in a text that is not inside a word."""


class Rows:
    """Finds rows by their prompts and references; how much whitespace is between words does not count.

    references, prompts: of each row by its id; a row may lack its prompt.
    """

    def __init__(self, references: Mapping[str, Any], prompts: Mapping[str, Sequence[Message]]) -> None:
        self._references = {row: reference_as_text(value) for row, value in references.items() if value is not None}
        self._messages = {row: [plain(message["content"]) for message in chat] for row, chat in prompts.items()}
        self._prompts = {row: " ".join(messages) for row, messages in self._messages.items()}
        self._by_reference = rows_by(self._references)
        self._by_prompt = rows_by(self._prompts)
        self._by_question = rows_by({row: messages[-1] for row, messages in self._messages.items() if messages[-1]})
        self._anchor = min([ANCHOR, *map(len, self._by_question)])
        self._starts = {question[: self._anchor] for question in self._by_question}
        self._ends = {question[-self._anchor :] for question in self._by_question}
        self._found: dict[str, list[str]] = {}

    def find(self, prompt: str, reference: Any) -> list[str]:
        """Return the ids of the rows with this prompt and this reference; one of them may be unknown, empty or None.

        The prompt is that of a row, or a text that contains the row's last user message, as a chat template writes it.
        """
        text = None if reference is None else reference_as_text(reference)
        if not prompt.strip():
            return self._by_reference.get(text, []) if text is not None else []
        key = plain(prompt)
        if key not in self._found:
            self._found[key] = self._by_prompt.get(key) or self._rows_asked_in(key)
        return [row for row in self._found[key] if text in (None, self._references.get(row))]

    def are_alike(self, rows: Sequence[str]) -> bool:
        """Return whether all rows have the same prompt and the same reference."""
        return len({(self._prompts.get(row), self._references.get(row)) for row in rows}) == 1

    def _rows_asked_in(self, text: str) -> list[str]:
        """Return the rows whose last user message is in a text.

        If there are rows with all messages in it, only these, for each question those with the longest prompts. A
        question that is also in another row's prompt, such as an example there, is not the one that is asked.
        """
        questions = dict.fromkeys(self._questions_in(text))
        whole = {question: self._longest_in(text, question) for question in questions}
        rows = {question: several for question, several in whole.items() if several}
        rows = rows or {question: self._by_question[question] for question in questions}

        def is_in_prompt_of(question: str, other: str) -> bool:
            return question != other and any(question in self._prompts[row] for row in rows[other])

        return [
            row
            for question, several in rows.items()
            if not any(is_in_prompt_of(question, other) and not is_in_prompt_of(other, question) for other in rows)
            for row in several
        ]

    def _longest_in(self, text: str, question: str) -> list[str]:
        """Return the rows with a question all of whose messages are in a text, those with the longest prompts."""
        rows = [row for row in self._by_question[question] if all(part in text for part in self._messages[row])]
        longest = max((len(self._prompts[row]) for row in rows), default=0)
        return [row for row in rows if len(self._prompts[row]) == longest]

    def _questions_in(self, text: str) -> Iterator[str]:
        """Yield the questions in a text whose ends are not inside a word."""
        size = self._anchor
        places = [match.start() for match in PLACE.finditer(text)]
        starts = [place for place in places if text[place : place + size] in self._starts]
        stops = [place for place in places if text[max(0, place - size) : place] in self._ends] if starts else []
        for start in starts:
            for stop in stops:
                if (question := text[start:stop]) in self._by_question:
                    yield question


def rows_by(texts: Mapping[str, str]) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for row, text in texts.items():
        rows.setdefault(text, []).append(row)
    return rows


def reference_as_text(reference: Any) -> str:
    """Return a reference as one text: its alternatives, in their order, side by side."""
    texts = [reference] if isinstance(reference, str) else reference_texts(reference)
    return plain("\n".join(filter(None, texts)))


def plain(text: str) -> str:
    """Return a text with single spaces between its words: chat templates may trim messages."""
    return " ".join(text.split())
