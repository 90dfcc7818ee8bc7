"""How long a reply may be for the length of its request, and how long the reply to a batch can become.

A reply can be many times as long as its request: results count once for each configuration, and a step of 56 bytes has
seven numbers. So its bound is known before anything is computed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ...kernels.column import TextColumn
from ...kernels.score import COMPONENTS, MIN_STEP_BYTES
from ..errors import Issue
from ..rewards.batch import Batch
from ..rewards.registry import REWARDS, SCORE, TASK_COMPONENTS, reward_of
from ..scoring.configurations import by_reading
from ..scoring.texts import Texts
from .json_codec import RequestLimits
from .problems import Problem

REPLY_BYTES = 20
"""Maximum bytes of a reply for each byte of its request, once decompressed."""

FREE_REPLY_BYTES = 1 << 18
"""Bytes that any reply may have beyond those: short requests get every column under every configuration."""

REASON_BYTES = max(len(reason) for reward in REWARDS for reason in reward.reasons)


class Sizes(NamedTuple):
    """Maximum bytes of the parts of a reply in one format."""

    number: int
    zero: int
    row: int
    """Everything of a row but its floats: its reason, its alternative, and the brackets of its steps."""
    step: int
    shared_step: int
    """A step without the places and the coverage that it shares with the same step under the first configuration."""
    names: int
    """Names and identity, once for each configuration."""


JSON_SIZES = Sizes(number=25, zero=4, row=REASON_BYTES + 10, step=170, shared_step=60, names=1 << 10)
ARROW_SIZES = Sizes(number=8, zero=8, row=REASON_BYTES + 16, step=56, shared_step=56, names=1 << 13)

BLOCK_BYTES = 1 << 20
BRACE = 0x7B


def longest_reply(request_bytes: int, limits: RequestLimits) -> int:
    """Return the maximum length of the reply to a request of this length."""
    return min(FREE_REPLY_BYTES + REPLY_BYTES * request_bytes, max(FREE_REPLY_BYTES, limits.max_reply_bytes))


def reply_too_long(product: str, request_bytes: int, limits: RequestLimits, path: str = "body") -> Problem:
    """Return the error of a request whose reply is, or could be, too long; `product` says how long, and why."""
    allowed = f"{FREE_REPLY_BYTES} bytes and {REPLY_BYTES} for each byte of its request"
    detail = f"A reply may have {allowed}, up to {limits.max_reply_bytes}: here {longest_reply(request_bytes, limits)}."
    return Problem("too-large", detail, [Issue(path, "reply_too_large", product)])


def check_length(reply: bytes, request_bytes: int, limits: RequestLimits) -> bytes:
    """Return a reply that was computed without a bound; raise Problem `too-large` if it is too long."""
    if len(reply) > longest_reply(request_bytes, limits):
        raise reply_too_long(f"a reply of {len(reply)} bytes", request_bytes, limits)
    return reply


def check_reply(
    batch: Batch, include: Collection[str], request_bytes: int, limits: RequestLimits, sizes: Sizes = JSON_SIZES
) -> int:
    """Return how long the reply to a batch can become; raise Problem `too-large` if that is too long.

    A batch with issues has no reply: its length is 0.
    """
    if batch.issues:
        return 0
    configs, steps = len(batch.configurations), steps_in(batch) if batch.steps else 0
    results = batch.size * (sizes.row + sizes.number * (1 + ("advantages" in include)))
    if "components" in include:
        results += component_bytes(batch, sizes)
    nbytes = configs * (sizes.names + results) + steps * step_bytes(batch, sizes)
    if nbytes > longest_reply(request_bytes, limits):
        columns = ", ".join(["rewards", *sorted(set(include))])
        product = f"{batch.size} responses by {configs} configurations, with {columns}"
        product += f" of up to {steps} steps" * batch.steps
        path = "configs" if configs > 1 else "include"
        raise reply_too_long(f"{product}: up to {nbytes} bytes", request_bytes, limits, path)
    return nbytes


def component_bytes(batch: Batch, sizes: Sizes) -> int:
    """Return the maximum bytes of the components of a batch under one configuration."""
    if batch.task != SCORE:
        rewards = REWARDS if batch.task is None else [reward_of(batch.task)]
        own = max(len(reward.components) for reward in rewards)
        return batch.size * (sizes.number * own + sizes.zero * (len(TASK_COMPONENTS) - own))
    with_steps = int(may_have_steps(batch.responses).sum())  # others fail a gate: their components are 0
    return len(COMPONENTS) * (sizes.number * with_steps + sizes.zero * (batch.size - with_steps))


def may_have_steps(responses: Texts | None) -> np.ndarray:
    return responses.lengths >= MIN_STEP_BYTES if isinstance(responses, TextColumn) else np.ones(0, bool)


def steps_in(batch: Batch) -> int:
    """Return the maximum number of steps of all responses: each is an object in JSON, and has 56 bytes or more."""
    column = batch.responses
    if not isinstance(column, TextColumn):
        return 0
    text = column.data[int(column.offsets[0]) : int(column.offsets[-1])]
    blocks = [text[start : start + BLOCK_BYTES] for start in range(0, len(text), BLOCK_BYTES)]
    return min(sum(int(np.count_nonzero(block == BRACE)) for block in blocks), len(text) // MIN_STEP_BYTES)


def step_bytes(batch: Batch, sizes: Sizes) -> int:
    """Return the maximum bytes of one step under all configurations."""
    settings = [scorer.settings for scorer in batch.configurations.values()]
    sharing = sum(len(members) - 1 for members in by_reading(settings) if 0 in members)
    return sizes.step * (len(settings) - sharing) + sizes.shared_step * sharing
