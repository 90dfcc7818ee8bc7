"""POST /compat/nemo-gym/verify: a resources server of NeMo Gym, as verifiers, axolotl and NeMo RL speak to it too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import orjson
from pydantic import Field

from ....errors import Issue
from ....scoring.scores import Scores
from ...wire.json_codec import Limits
from .dialect import Texts, missing, native_request, single
from .json_document import ABSENT, Built, Document, Names, Span
from .output_text import output_text
from .query_settings import RouteOptions
from .reply_numbers import NUMBERS, reply_of_one

__all__ = ["NemoGym", "NemoGymOptions"]

FIELDS = ("responses_create_params", "response")
PARAMETERS, RESPONSE, REFERENCE = range(3)


BAD_REFERENCE = "assay:bad_reference"
"""Gym wants `SERVER:KIND` for kinds of failure that are not in its own list."""


class NemoGymOptions(RouteOptions):
    """Where the reference stands, and what becomes of a rollout whose reference cannot be read."""

    reference_field: str = Field(
        "reference", min_length=1, description="The row's field with the reference; `a.b` is the field b of a."
    )
    on_bad_reference: Literal["error", "mask"] = Field(
        "error",
        description="What a row gets whose reference is missing or cannot be read: an error (422), or a reply with "
        "`mask_sample`, which NeMo Gym 0.7 and NeMo RL leave out. Not for clients that read `reward` alone.",
    )


class NemoGym:
    """One row of a data set with what the model answered; both are given back, byte for byte."""

    options = NemoGymOptions

    def names(self, options: NemoGymOptions) -> Names:
        return Names(*FIELDS, options.reference_field.partition(".")[0])

    def native(self, document: Document, options: NemoGymOptions) -> bytes | None:
        reference = reference_span(document, options)
        text, issues = output_text(Built, document.value(document.spans[RESPONSE]))
        if issues or reference == ABSENT or not document.is_object(document.spans[PARAMETERS]):
            return None
        return native_request(document.raw(reference), orjson.dumps(text))

    def texts(self, document: Document, options: NemoGymOptions, limits: Limits) -> Texts:
        issues = missing(document, FIELDS)
        if document.spans[PARAMETERS] != ABSENT and not document.is_object(document.spans[PARAMETERS]):
            issues.append(Issue(FIELDS[PARAMETERS], "wrong_type", "must be an object"))
        text = ""
        if document.spans[RESPONSE] != ABSENT:
            text, found = output_text(document, document.spans[RESPONSE])
            issues += found
        reference = reference_span(document, options)
        read = single(document.raw(reference), orjson.dumps(text), "response", limits)._replace(issues=issues)
        return read._replace(reference_faults=[MISSING]) if reference == ABSENT else read

    def reference_path(self, options: NemoGymOptions) -> str:
        return options.reference_field

    def encode(self, scores: Scores, document: Document, options: NemoGymOptions) -> bytes:
        return echoed(document, reply_of_one(scores))

    def masked(self, faults: Sequence[Issue], document: Document, options: NemoGymOptions) -> bytes | None:
        if options.on_bad_reference == "error":
            return None
        reason = "; ".join(f"{fault.path}: {fault.detail} ({fault.reason})" for fault in faults)
        # Gym's models want a number as the reward, and NeMo RL takes the names of numbers from a group's first reply.
        # It looks for the mask in `instance_config`, Gym at the top.
        mask = {"mask_sample": True, "failure_kind": BAD_REFERENCE, "failure_reason": reason}
        numbers = {"reward": 0.0, **dict.fromkeys(NUMBERS, 0.0), "score_reason_code": -1.0}
        return echoed(document, orjson.dumps({**numbers, **mask, "instance_config": {"mask_sample": True}}))


MISSING = Issue("references[0]", "missing_field", "the row's reference; `reference_field` names another field")


def echoed(document: Document, members: bytes) -> bytes:
    """The reply with these members, a JSON object, after what is given back."""
    parameters, response = document.raw(document.spans[PARAMETERS]), document.raw(document.spans[RESPONSE])
    return b'{"responses_create_params":%b,"response":%b,%b' % (parameters, response, members[1:])


def reference_span(document: Document, options: NemoGymOptions) -> Span:
    """Where the reference stands: in a member of the row, or in a member of that, and so on."""
    span = document.spans[REFERENCE]
    for name in options.reference_field.split(".")[1:]:
        members = document.members(span, Names(name))
        span = ABSENT if members is None else members[0]
    return span
