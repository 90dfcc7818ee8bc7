"""The work that a request can cause, counted before it is admitted to the event loop or scored: of SCORE in units, of
other tasks in bytes that are compared.

One unit is what comparing a byte of a response costs at most; docs/cost.md has the measurements behind the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import orjson

from ...kernels.column import TextColumn
from ..errors import Issue
from ..rewards.batch import Batch
from ..rewards.registry import reward_of
from ..scoring.configurations import CONTENT, READING, SIMILARITY, by_reading
from ..scoring.references import ReferenceTexts
from ..scoring.texts import Texts
from ..settings import ScoreSettings
from .problems import Problem

READ, READ_WORDS, READ_QUANTITIES, COMPARE, PLACE = 96, 144, 64, 8, 1
"""Units for each byte that is read, and where the words of the prose are looked at one by one; further ones where
quantities are read; for each byte of a response that is compared with an alternative in one way; and for each byte
whose anchors are summed with one position factor."""

MAX_WORK = 400
"""Maximum units for each byte of text."""

FREE_WORK = 16 << 20
"""Units that any request may cause: some milliseconds."""


def check_work(batch: Batch, max_responses: int, max_bytes: int) -> None:
    """Raise Problem `too-large`, naming the product and its limit, for a batch that can cause too much work.

    Its numbers of references and results are limited by `max_responses`, the bytes that are read by `max_bytes`, and
    the bytes that are read or compared by MAX_WORK.
    """
    configs = max(1, len(batch.configurations) - 1)
    if configs == 1 and batch.alternatives is None:
        return
    counts = alternatives_of_responses(batch)
    check_results(batch, int(counts.sum()), configs, max_responses)
    settings = [scorer.settings for scorer in batch.configurations.values()]
    groups = [[settings[k] for k in members] for members in by_reading(settings)]
    references, responses = bytes_of(batch.references and batch.references.texts), bytes_of(batch.responses)
    nbytes = int(references.sum() + responses.sum())
    if len(groups) > 1 and len(groups) * nbytes > max_bytes:
        issue = Issue("configs", "too_many", f"{nbytes} bytes of text, to be read {len(groups)} times")
        detail = f"Texts count once for each combination of {', '.join(READING)}, up to {max_bytes} bytes."
        raise Problem("too-large", detail, [issue])
    compared = int(responses @ counts) if len(counts) == len(responses) else 0
    work, limit = reading(groups) * nbytes + comparing(groups) * compared, max(FREE_WORK, MAX_WORK * nbytes)
    if work > limit:
        product = f"{nbytes} bytes read {len(groups)} times, {compared} bytes compared under {configs} configurations"
        path = "references" if batch.alternatives is not None else "configs"
        issue = Issue(path, "too_many", f"{product}: {work} units of work, and {limit} are the limit")
        detail = (
            f"A byte that is read counts {READ}, with coverage by words or limits of what prose adds {READ_WORDS}, "
            f"and {READ_QUANTITIES} more with quantities; "
            f"a byte of a response counts for each alternative {COMPARE} times for "
            f"each combination of {', '.join(SIMILARITY)}, and once for each further one of {', '.join(CONTENT[2:])}."
        )
        raise Problem("too-large", detail, [issue])


def check_results(batch: Batch, compared: int, configs: int, max_responses: int) -> None:
    """Raise Problem `too-large` for too many references with alternatives, or results of all configurations."""
    if batch.alternatives is None:
        if compared * configs > max_responses:
            issue = Issue("configs", "too_many", f"{compared} responses by {configs} configurations")
            detail = f"A response counts once for each of `configs`, and a request may have {max_responses} responses."
            raise Problem("too-large", detail, [issue])
        return
    number = int(batch.alternatives.offsets[-1])
    if number > max_responses:
        issue = Issue("references", "too_many", f"{number} references and alternatives")
        detail = f"A request may have {max_responses} references, and alternatives of these."
        raise Problem("too-large", detail, [issue])
    if compared * configs > max_responses:
        issue = Issue("references", "too_many", f"{compared * configs} comparisons of a response with an alternative")
        detail = f"A response counts once for each alternative of its reference, up to {max_responses} in all."
        raise Problem("too-large", detail, [issue])


def alternatives_of_responses(batch: Batch) -> np.ndarray:
    """Return the number of texts that each response is compared with, int64 (n,); 0 for an invalid reference."""
    if batch.alternatives is None:
        return np.ones(batch.size, np.int64)
    counts, index = batch.alternatives.counts, batch.reference_index
    if index is None:
        return np.full(batch.size, counts[0]) if len(counts) == 1 else counts
    compared = np.zeros(len(index), np.int64)
    valid = (index >= 0) & (index < len(counts))
    compared[valid] = counts[index[valid]]
    return compared


def bytes_of(texts: object) -> np.ndarray:
    """Return the bytes of each text, int64 (n,)."""
    return texts.lengths if isinstance(texts, TextColumn) else np.zeros(0, np.int64)


def reading(groups: Iterable[list[ScoreSettings]]) -> int:
    """Return the units for each byte of text under configurations grouped by reading."""
    return sum(
        (READ_WORDS if any(map(looks_at_words, group)) else READ)
        + READ_QUANTITIES * any(settings.reads_quantities for settings in group)
        for group in groups
    )


def looks_at_words(settings: ScoreSettings) -> bool:
    limits = settings.max_added_numbers, settings.max_added_words
    return settings.coverage == "words" or limits != (None, None)


def comparing(groups: Iterable[list[ScoreSettings]]) -> int:
    """Return the units for each byte of a response and each alternative, under configurations grouped by reading."""
    similarity, content = attrgetter(*SIMILARITY), attrgetter(*CONTENT)
    return sum(COMPARE * len({*map(similarity, group)}) + PLACE * len({*map(content, group)}) for group in groups)


EXPANDING = 8
"""How many times the bytes of other characters than ASCII count: normalization makes some eleven times as long."""

ESCAPE = 6
"""Bytes of a character as `\\ufdfa`."""

MAX_LOOP_ROWS = 256
"""Rows that the event loop reads at most: each costs something besides its bytes, above all if it is refused."""


def are_few(references: ReferenceTexts | None, responses: TextColumn | None) -> bool:
    """Return whether columns have few enough rows for the event loop."""
    rows = 0 if references is None else references.rows, 0 if responses is None else responses.rows
    return max(rows) <= MAX_LOOP_ROWS


def is_light(body: bytes | bytearray, max_bytes: int) -> bool:
    """Return whether a JSON body is little enough work for the event loop: fewer than `max_bytes` bytes of ASCII."""
    if len(body) >= max_bytes:
        return False
    if EXPANDING * len(body) < max_bytes:
        return True
    text = np.frombuffer(body, np.uint8)
    escaped = np.count_nonzero((text[:-1] == ord("\\")) & (text[1:] == ord("u")))
    expanding = ESCAPE * escaped + np.count_nonzero(text >= 0x80)
    return bool(len(body) + (EXPANDING - 1) * expanding < max_bytes)


QUICK_BYTES = 4096
"""Maximum bytes of rows that need no separate process, which takes 3 ms more. Usually their rewards take 0.1 ms; the
worst answer, nested lists for ORD, takes up to 15 ms."""


def text_bytes(texts: Texts | None) -> int:
    return int(texts.offsets[-1] - texts.offsets[0]) if isinstance(texts, TextColumn) else 0


def is_quick(parts: Iterable[Batch]) -> bool:
    """Return whether rows of other tasks are little enough work to be scored here."""
    texts = [text for part in parts for text in (part.responses, part.references and part.references.texts)]
    nbytes = sum(map(text_bytes, texts))
    return nbytes <= QUICK_BYTES and not any(reward_of(part.task).compares for part in parts)


COMPARED = 20
FREE_COMPARED_BYTES = 1 << 21
"""Maximum bytes of references over all responses, for tasks that read the reference for each response: so many for each
byte of the rows, and as many as groups of short responses need."""


def check_compared(references: Sequence[Mapping[str, Any]], part: Batch) -> None:
    """Raise Problem `too-large` if the references of all responses are too long for the rows."""
    lengths = np.array([len(orjson.dumps(reference)) for reference in references], np.int64)
    compared = int(lengths[part.reference_index].sum())
    allowed = FREE_COMPARED_BYTES + COMPARED * (int(lengths.sum()) + text_bytes(part.responses))
    if compared > allowed:
        detail = f"the references of all responses have {compared} bytes; here this task allows {allowed}"
        issue = Issue("reference_index", "too_much_to_compare", detail)
        limit = f"{FREE_COMPARED_BYTES} bytes, and {COMPARED} for each byte of responses and references"
        raise Problem("too-large", f"References count once for each response, up to {limit}.", [issue])
