"""POST /compat/openrlhf: OpenRLHF's `--reward.remote_url` (older: `--remote_rm_url`)."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from ....errors import Issue
from ....scoring.scores import Scores
from ...wire.json_codec import Limits
from .dialect import Texts, missing, native_request, read_column, renamed
from .json_document import Document, Names
from .prompt_removal import response_behind, responses_behind
from .query_settings import RouteOptions
from .reply_numbers import columns_of_numbers, finite_json

__all__ = ["OpenRlhf"]

FIELDS = ("query", "prompts", "labels")
QUERY, PROMPTS, LABELS = range(3)
NAMES = Names(*FIELDS)


class OpenRlhf:
    """Arrays of queries (prompt and response in one text), prompts and labels; always one of each, today."""

    options = RouteOptions

    def names(self, options: RouteOptions) -> Names:
        return NAMES

    def native(self, document: Document, options: RouteOptions) -> bytes | None:
        queries, prompts, labels = (document.raw(span) for span in document.spans)
        listed = document.value(document.spans[PROMPTS])
        if type(listed) is not list or len(listed) != 1 or type(listed[0]) is not str or labels[:1] != b"[":
            return None
        if queries.startswith(prompts[:-2]) and prompts[-2:] == b'"]':  # one spelling: what follows is the response
            return native_request(labels[1:-1], b'"' + queries[len(prompts) - 2 : -1])
        query = document.value(document.spans[QUERY])
        if type(query) is not list or len(query) != 1 or type(query[0]) is not str:
            return None
        return native_request(labels[1:-1], orjson.dumps(response_behind(listed[0], query[0])))

    def texts(self, document: Document, options: RouteOptions, limits: Limits) -> Texts:
        issues = missing(document, FIELDS)
        queries, misfits = read_column(document.raw(document.spans[QUERY]), "responses", "query", limits)
        issues += renamed(misfits, "responses", "query[]")
        prompts, misfits = read_column(document.raw(document.spans[PROMPTS]), "responses", "prompts", limits)
        issues += renamed(misfits, "responses", "prompts[]")
        labels, faults = read_column(document.raw(document.spans[LABELS]), "references", "labels", limits)
        if labels is None:
            issues += renamed(faults, "references", "labels[]")
            faults = []
        for name, column in (("prompts", prompts), ("labels", labels)):
            if queries is not None and column is not None and column.rows != queries.rows:
                detail = f"it has {column.rows} entries for {queries.rows} queries"
                issues.append(Issue(name, "wrong_length", detail))
        if issues or queries is None or prompts is None:
            return Texts(None, labels, issues, faults)
        return Texts(responses_behind(prompts, queries), labels, issues, faults)

    def reference_path(self, options: RouteOptions) -> str:
        return "labels[]"

    def encode(self, scores: Scores, document: Document, options: RouteOptions) -> bytes:
        rewards = finite_json(scores.rewards.tolist())
        return b'{"rewards":%b,"scores":%b,"extra_logs":%b}' % (rewards, rewards, columns_of_numbers(scores))

    def masked(self, faults: Sequence[Issue], document: Document, options: RouteOptions) -> bytes | None:
        return None
