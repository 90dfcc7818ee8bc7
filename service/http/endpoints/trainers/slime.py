"""POST /compat/slime: slime's `--rm-type remote_rm --rm-url …`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ....rewards.scores import Scores
from ...wire.json_codec import Limits
from .dialect import Dialect, RouteOptions, Texts, native_request, read_pair
from .json_document import Document, ValueSpan
from .reply_numbers import finite_json, reply_of_one

__all__ = ["Slime", "SlimeOptions"]

RESPONSE, LABEL = range(2)


class SlimeOptions(RouteOptions):
    """The form of the reply."""

    format: Literal["object", "float"] = Field(
        "object", description="The reply: an object (for --reward-key reward), or the bare reward."
    )


class Slime(Dialect):
    """One rollout; its prompt (text or chat messages) is ignored."""

    options = SlimeOptions
    fields = ("response", "label")

    def label(self, document: Document, options: SlimeOptions) -> ValueSpan:
        return document.spans[LABEL]

    def native(self, document: Document, options: SlimeOptions) -> bytes | None:
        return native_request(document.raw(document.spans[LABEL]), document.raw(document.spans[RESPONSE]))

    def texts(self, document: Document, options: SlimeOptions, limits: Limits) -> Texts:
        label, response = document.raw(document.spans[LABEL]), document.raw(document.spans[RESPONSE])
        texts = read_pair(label, response, "response", limits)
        return texts._replace(issues=self.missing_fields(document) + texts.issues)

    def reference_path(self, options: SlimeOptions) -> str:
        return "label"

    def encode(self, scores: Scores, document: Document, options: SlimeOptions) -> bytes:
        if options.format == "float":
            return finite_json(float(scores.rewards[0]))
        return reply_of_one(scores, options.names_tasks)
