"""POST /compat/openrlhf: OpenRLHF's `--reward.remote_url` (older: `--remote_rm_url`)."""

from __future__ import annotations

from typing import Literal

import orjson
from pydantic import Field

from ....errors import Issue
from ....rewards.scores import Scores
from ...wire.json_codec import Limits
from .dialect import Dialect, RouteOptions, Texts, native_request, read_column, rename_paths
from .json_document import Document, ValueSpan
from .prompt_removal import remove_prompt, remove_prompts
from .reply_numbers import columns_of_numbers, finite_json

__all__ = ["OpenRlhf", "OpenRlhfOptions"]

QUERY, PROMPTS, LABELS = range(3)


class OpenRlhfOptions(RouteOptions):
    """What OpenRLHF's dynamic filtering gets."""

    scores: Literal["rewards", "passed"] = Field(
        "rewards",
        description="The `scores` of the reply, whose mean over a group dynamic filtering compares with its range: the "
        "rewards, or `score_passed`.",
    )


class OpenRlhf(Dialect):
    """Arrays of queries (prompt and response in one text), prompts and labels; OpenRLHF sends one of each."""

    options = OpenRlhfOptions
    fields = ("query", "prompts", "labels")

    def label(self, document: Document, options: OpenRlhfOptions) -> ValueSpan:
        return document.spans[LABELS]

    def native(self, document: Document, options: OpenRlhfOptions) -> bytes | None:
        queries, prompts, labels = (document.raw(span) for span in document.spans)
        listed = document.value(document.spans[PROMPTS])
        if type(listed) is not list or len(listed) != 1 or type(listed[0]) is not str or labels[:1] != b"[":
            return None
        if queries.startswith(prompts[:-2]) and prompts[-2:] == b'"]':  # same escapes: the rest is the response
            return native_request(labels[1:-1], b'"' + queries[len(prompts) - 2 : -1])
        query = document.value(document.spans[QUERY])
        if type(query) is not list or len(query) != 1 or type(query[0]) is not str:
            return None
        return native_request(labels[1:-1], orjson.dumps(remove_prompt(listed[0], query[0])))

    def texts(self, document: Document, options: OpenRlhfOptions, limits: Limits) -> Texts:
        issues = self.missing_fields(document)
        queries, found, _ = read_column(document.raw(document.spans[QUERY]), "responses", "query", limits)
        issues += rename_paths(found, "responses", "query[]")
        prompts, found, _ = read_column(document.raw(document.spans[PROMPTS]), "responses", "prompts", limits)
        issues += rename_paths(found, "responses", "prompts[]")
        labels, found, kinds = read_column(document.raw(document.spans[LABELS]), "references", "labels", limits)
        if labels is None:
            issues += rename_paths(found, "references", "labels[]")
            found = []
        for name, column in (("prompts", prompts), ("labels", labels)):
            if queries is not None and column is not None and column.rows != queries.rows:
                detail = f"it has {column.rows} entries for {queries.rows} queries"
                issues.append(Issue(name, "wrong_length", detail))
        if issues or queries is None or prompts is None:
            return Texts(None, labels, issues, found, kinds)
        return Texts(remove_prompts(prompts, queries), labels, issues, found, kinds)

    def reference_path(self, options: OpenRlhfOptions) -> str:
        return "labels[]"

    def encode(self, scores: Scores, document: Document, options: OpenRlhfOptions) -> bytes:
        rewards = finite_json(scores.rewards.tolist())
        filtered = finite_json(scores.passed.tolist()) if options.scores == "passed" else rewards
        numbers = columns_of_numbers(scores, options.names_tasks)
        return b'{"rewards":%b,"scores":%b,"extra_logs":%b}' % (rewards, filtered, numbers)
