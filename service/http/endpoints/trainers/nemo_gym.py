"""POST /compat/nemo-gym/verify: a resources server of NeMo Gym, for verifiers, axolotl and NeMo RL too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import orjson
from pydantic import Field

from ....errors import Issue
from ....scoring.scores import Scores
from ...wire.json_codec import Limits
from .dialect import Texts, missing_fields, native_request, read_pair
from .json_document import ABSENT, Document, MemberNames, PythonReader, ValueSpan
from .output_text import output_text
from .query_settings import RouteOptions
from .reply_numbers import NUMBERS, reply_of_one

__all__ = ["NemoGym", "NemoGymOptions"]

FIELDS = ("responses_create_params", "response")
PARAMETERS, RESPONSE, REFERENCE = range(3)

BAD_REFERENCE = "assay:bad_reference"
"""Gym requires the form `SERVER:KIND` for kinds of failure outside its own list."""


class NemoGymOptions(RouteOptions):
    """Where to find the reference, and how to answer for an invalid one."""

    reference_field: str = Field(
        "reference", min_length=1, description="The row's field with the reference; `a.b` is the field b of a."
    )
    on_bad_reference: Literal["error", "mask"] = Field(
        "error",
        description="How to answer for a missing or invalid reference: with an error (422), or with `mask_sample`, "
        "which makes NeMo Gym 0.7 and NeMo RL skip the row. Do not mask for clients that read only `reward`.",
    )


class NemoGym:
    """A data-set row plus the model's output; both are echoed unchanged."""

    options = NemoGymOptions

    def names(self, options: NemoGymOptions) -> MemberNames:
        return MemberNames(*FIELDS, options.reference_field.partition(".")[0])

    def native(self, document: Document, options: NemoGymOptions) -> bytes | None:
        reference = reference_span(document, options)
        text, issues = output_text(PythonReader, document.value(document.spans[RESPONSE]))
        if issues or reference == ABSENT or not document.is_object(document.spans[PARAMETERS]):
            return None
        return native_request(document.raw(reference), orjson.dumps(text))

    def texts(self, document: Document, options: NemoGymOptions, limits: Limits) -> Texts:
        issues = missing_fields(document, FIELDS)
        if document.spans[PARAMETERS] != ABSENT and not document.is_object(document.spans[PARAMETERS]):
            issues.append(Issue(FIELDS[PARAMETERS], "wrong_type", "must be an object"))
        text = ""
        if document.spans[RESPONSE] != ABSENT:
            text, found = output_text(document, document.spans[RESPONSE])
            issues += found
        reference = reference_span(document, options)
        read = read_pair(document.raw(reference), orjson.dumps(text), "response", limits)._replace(issues=issues)
        return read._replace(reference_issues=[MISSING]) if reference == ABSENT else read

    def reference_path(self, options: NemoGymOptions) -> str:
        return options.reference_field

    def encode(self, scores: Scores, document: Document, options: NemoGymOptions) -> bytes:
        return echoed(document, reply_of_one(scores))

    def masked(self, issues: Sequence[Issue], document: Document, options: NemoGymOptions) -> bytes | None:
        if options.on_bad_reference == "error":
            return None
        reason = "; ".join(f"{issue.path}: {issue.detail} ({issue.reason})" for issue in issues)
        # Gym's models require a number as the reward, and look for the mask at the top level. NeMo RL takes the names
        # of numbers from a group's first reply, and looks for the mask in `instance_config`.
        mask = {"mask_sample": True, "failure_kind": BAD_REFERENCE, "failure_reason": reason}
        numbers = {"reward": 0.0, **dict.fromkeys(NUMBERS, 0.0), "score_reason_code": -1.0}
        return echoed(document, orjson.dumps({**numbers, **mask, "instance_config": {"mask_sample": True}}))


MISSING = Issue("references[0]", "missing_field", "the row's reference; `reference_field` names another field")


def echoed(document: Document, members: bytes) -> bytes:
    """Return the reply: the echoed fields, then the members of this JSON object."""
    parameters, response = document.raw(document.spans[PARAMETERS]), document.raw(document.spans[RESPONSE])
    return b'{"responses_create_params":%b,"response":%b,%b' % (parameters, response, members[1:])


def reference_span(document: Document, options: NemoGymOptions) -> ValueSpan:
    """Return the span of the reference, a possibly nested member of the row."""
    span = document.spans[REFERENCE]
    for name in options.reference_field.split(".")[1:]:
        members = document.members(span, MemberNames(name))
        span = ABSENT if members is None else members[0]
    return span
