"""A whole batch in one call: threads take shares of it from a counter, and none needs the GIL in between.

A share is a range of responses, in the order of their references, and the references that they point at. A thread
encodes its strings, reads its references and scores its responses in its own row of a `BatchMemory`, whose sizes follow
from the lengths of all texts: nothing grows in here.

The rewards are the same for any number of threads and any shares: no response depends on another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column import TextColumn, frozen
from .compiler import gil_kernel, helper, hot_kernel
from .memory import ROWS, SEED, Workspace, bytes_of_workspace, ints_of_workspace, read_only, sparse
from .reading.references import References, allocate_rooms, read_reference
from .rules import OK
from .score import (
    MIN_STEP_BYTES,
    StepEntries,
    largest_limits,
    reads_quantities,
    rules_at,
    score_response,
)
from .text.strings import LENGTHS, ROOM, WIDTHS, encode_string, has_valid_offsets, is_utf8
from .threads import LINE, fetch_add, on_threads

NO_SPANS = frozen(np.zeros((3, 0), np.int64), np.int64)
NO_COLUMN = TextColumn.of(np.zeros(0, np.uint8), np.zeros(1, np.int64))

MAX_SHARES = 1 << 14
SPLIT = 3
"""How many times the bytes of a reference a share must have before it ends between that reference's responses: the next
share reads the reference again."""

OVER_LIMIT = 255
"""The status of a reference with too many bytes."""

NEXT_SHARE, NEXT_THREAD, REFUSED, INVALID, STOPPED, LAST_SHARE = range(0, 6 * LINE, LINE)
"""Counters of `progress`: the next share and thread; how many threads have met a reference that is invalid, a text that
is not UTF-8, and the stop flag; and the end of the shares that are to be scored."""

SIZES = 9
TEXT, TEXTS, REFERENCE_TEXTS, REFERENCE_BYTES, LONGEST, LONGEST_REFERENCE = range(6)
"""What `allocate_memory` takes, in its order."""
ALTERNATIVES, ENTRIES, SHARES = range(6, SIZES)
"""The alternatives of a reference at most, upper bounds of the entries of all steps, and the number of shares."""

MAX_RESPONSE, MAX_REFERENCE, MAX_REFERENCE_STEPS, READS_QUANTITIES, SHARE_BYTES = range(5)
LIMITS = 5
"""Fields of `limits`."""


class Texts(NamedTuple):
    """n texts: a column, or strings that `find_strings` has located, which the caller keeps alive."""

    data: np.ndarray  # uint8
    offsets: np.ndarray  # int64 (n + 1,)
    spans: np.ndarray  # int64 (3, n) for strings, (3, 0) for a column
    is_valid: bool  # False for a column that is checked before it is read

    @classmethod
    def in_column(cls, column: TextColumn, is_valid: bool = True) -> Texts:
        return cls(*column, NO_SPANS, is_valid)

    @classmethod
    def of_strings(cls, layouts: np.ndarray) -> Texts:
        return cls(*NO_COLUMN, frozen(layouts, np.int64), True)


def new_progress() -> np.ndarray:
    """Return the counters at the start of a batch with one share."""
    progress = np.zeros(6 * LINE, np.int64)
    progress[LAST_SHARE] = 1
    return progress


class BatchMemory(NamedTuple):
    """The memory of t threads, a row for each."""

    text: np.ndarray  # uint8 (t, bytes): the encoded references of a share, then its encoded responses
    offsets: np.ndarray  # int64 (t, texts + 1)
    bytes: np.ndarray  # uint8 (t, 3, n), see `Workspace`
    ints: np.ndarray  # int64 (t, 48, n)
    seed: np.uint64
    references: References  # each column with a dimension more


def allocate_memory(
    threads: int,
    text: int,
    texts: int,
    reference_texts: int,
    reference_bytes: int,
    longest: int,
    longest_reference: int,
) -> BatchMemory:
    """Allocate memory for shares of at most `text` encoded bytes, `texts` texts of a kind, and `reference_texts`
    references of `reference_bytes` bytes; and for the longest text and reference. Untouched pages take no memory.
    """
    widest = 3 * (longest_reference + 128)  # as many strings and words fit a room for one reference
    return BatchMemory(
        text=sparse((threads, text + ROOM), np.uint8),
        offsets=np.zeros((threads, texts + 1), np.int64),
        bytes=sparse((threads, 3, bytes_of_workspace(longest)), np.uint8),
        ints=sparse((threads, ROWS, ints_of_workspace(longest, widest)), np.int64),
        seed=SEED,
        references=allocate_rooms(threads, reference_bytes, reference_texts),
    )


class BatchArrays(NamedTuple):
    """What the threads of a batch share: n responses under k configurations, and the texts of R references."""

    progress: np.ndarray  # int64 (6 * LINE,), see NEXT_SHARE
    shares: np.ndarray  # int64 (shares, 4): ranges of references and of places in `order`, from `plan_batch`
    order: np.ndarray  # int64 (n,): the responses in the order of their references, from `plan_batch`
    responses: Texts
    references: Texts
    reference_index: np.ndarray  # int64 (n,): the reference of each response
    alternatives: np.ndarray  # int64 (R + 1,): where the texts of each reference begin; empty if each has one
    limits: np.ndarray  # int64 (LIMITS,), see MAX_RESPONSE
    configurations: np.ndarray  # float64 (k, 23), rows as `rules_at` takes them, which read responses alike
    tables: np.ndarray
    statuses: np.ndarray  # uint8 (texts,), written: OK, or why a reference is invalid
    bad_lines: np.ndarray  # int64 (texts,), written: index of the bad line among its non-blank lines
    rewards: np.ndarray  # float64 (k, n), written
    reasons: np.ndarray  # uint8 (k, n), written
    components: np.ndarray  # float64 (k, 12, n), written: rows as in COMPONENTS, 0 after a failed gate
    entries: StepEntries  # written, if it has room
    memory: BatchMemory
    trials: np.ndarray  # float64 (threads, k, most + 1): rewards against up to `most` alternatives, and the best one
    stop_flag: np.ndarray  # int64 (1,): the threads stop soon after it is not 0


@helper
def most_bytes(texts, row, limit):
    """Return an upper bound of the bytes of a text. Only the first `limit` + 1 characters of a string are encoded."""
    if texts.spans.shape[1] == 0:
        return texts.offsets[row + 1] - texts.offsets[row]
    width = texts.spans[WIDTHS, row]
    return min(texts.spans[LENGTHS, row], limit + 1) * (2 if width == 1 else 3 if width == 2 else 4)


@helper
def sort_by_reference(order, starts, reference_index):
    """Sort the rows by reference into `order`; write to `starts` where the rows of each reference begin."""
    for reference in range(starts.shape[0]):
        starts[reference] = 0
    ascending = True
    for row in range(order.shape[0]):
        order[row] = row
        starts[reference_index[row]] += 1
        ascending = ascending and (row == 0 or reference_index[row - 1] <= reference_index[row])
    for reference in range(1, starts.shape[0]):
        starts[reference] += starts[reference - 1]
    for row in range(order.shape[0] - 1, -1, -1):
        reference = reference_index[row]
        starts[reference] -= 1
        if not ascending:
            order[starts[reference]] = row


@gil_kernel
def plan_batch(sizes, shares, order, starts, responses, references, reference_index, alternatives, limits):
    """Divide a batch of n responses and R references into shares; return False if a column has invalid offsets.

    Keeps the GIL, for about 10 ns a text: getting it back beside a busy thread would take 5 ms.

    sizes: int64 (SIZES,), written: maxima over all shares, as `allocate_memory` takes them, and other numbers. shares:
    written, with n + R + 1 rows, or 2 * MAX_SHARES if these are fewer. order: written. starts: int64 (R + 1,),
    overwritten. For the others see `BatchArrays`; each reference_index must be valid.
    """
    for k in range(sizes.shape[0]):
        sizes[k] = 0
    for texts in (responses, references):
        if not texts.is_valid and not has_valid_offsets(texts.data, texts.offsets):
            return False
    sort_by_reference(order, starts, reference_index)
    total = np.int64(0)
    for row in range(order.shape[0]):
        nbytes = most_bytes(responses, row, limits[MAX_RESPONSE])
        total += nbytes
        nbytes = min(nbytes, limits[MAX_RESPONSE])
        sizes[LONGEST] = max(sizes[LONGEST], nbytes)
        sizes[ENTRIES] += nbytes // MIN_STEP_BYTES + 1
    rows = starts.shape[0] - 1
    texts = alternatives[rows] if alternatives.shape[0] else rows
    for text in range(texts):
        nbytes = most_bytes(references, text, limits[MAX_REFERENCE])
        total += nbytes
        sizes[LONGEST_REFERENCE] = max(sizes[LONGEST_REFERENCE], min(nbytes, limits[MAX_REFERENCE]))
    sizes[LONGEST] = max(sizes[LONGEST], sizes[LONGEST_REFERENCE])
    share_bytes = max(limits[SHARE_BYTES], total // MAX_SHARES + 1)

    first_reference = first_place = np.int64(0)
    work = response_bytes = reference_bytes = reference_texts = np.int64(0)
    for reference in range(rows):
        first, last = np.int64(reference), np.int64(reference + 1)
        if alternatives.shape[0]:
            first, last = alternatives[reference], alternatives[reference + 1]
        nbytes = np.int64(0)
        for text in range(first, last):
            nbytes += most_bytes(references, text, limits[MAX_REFERENCE])
        sizes[ALTERNATIVES] = max(sizes[ALTERNATIVES], last - first)
        work, reference_bytes, reference_texts = work + nbytes, reference_bytes + nbytes, reference_texts + last - first
        place, stop = starts[reference], starts[reference + 1]
        while True:
            is_split = False
            while place < stop and not is_split:
                size = most_bytes(responses, order[place], limits[MAX_RESPONSE])
                work, response_bytes, place = work + size, response_bytes + size, place + 1
                is_split = place < stop and work >= share_bytes and work >= SPLIT * nbytes
            sizes[TEXT] = max(sizes[TEXT], max(response_bytes, reference_bytes))
            sizes[TEXTS] = max(sizes[TEXTS], max(place - first_place, reference_texts))
            sizes[REFERENCE_TEXTS] = max(sizes[REFERENCE_TEXTS], reference_texts)
            sizes[REFERENCE_BYTES] = max(sizes[REFERENCE_BYTES], reference_bytes)
            if work >= share_bytes or reference + 1 == rows:
                share = sizes[SHARES]
                shares[share, 0], shares[share, 1] = first_reference, reference + 1
                shares[share, 2], shares[share, 3] = first_place, place
                sizes[SHARES] += 1
                first_reference, first_place = np.int64(reference + 1), place
                work = response_bytes = reference_bytes = reference_texts = np.int64(0)
            if not is_split:
                break
            first_reference = np.int64(reference)
            work, reference_bytes, reference_texts = nbytes, nbytes, last - first
    return True


@helper
def encode_texts(texts, order, first, last, limit, out, offsets):
    """Encode strings [first, last), or those that `order` has there, to `out`; write their offsets."""
    offsets[0] = 0
    for place in range(first, last):
        text = order[place] if order.shape[0] else np.int64(place)
        offsets[place - first + 1] = encode_string(texts.spans, text, limit + 1, out, offsets[place - first])


@helper
def read_share(memory, t, room, references, first, last, statuses, bad_lines, limits, tables, workspace, stop_flag):
    """Read the reference texts [first, last) into the room of thread `t`; return (texts that are UTF-8, valid ones, and
    whether it was not stopped).
    """
    data, offsets, shift = references.data, references.offsets, np.int64(0)
    if references.spans.shape[1]:
        out, written = memory.text[t], memory.offsets[t]
        encode_texts(references, written[:0], first, last, limits[MAX_REFERENCE], out, written)
        data, offsets, shift = read_only(out), read_only(written), first
    texts = valid = np.int64(0)
    for text in range(first, last):
        if stop_flag[0] != 0:
            return texts, valid, False
        start, stop = offsets[text - shift], offsets[text - shift + 1]
        if references.is_valid or is_utf8(data, start, stop):
            texts += 1
        else:
            stop = start
        is_long = stop - start > limits[MAX_REFERENCE]
        statuses[text], bad_lines[text] = read_reference(
            workspace,
            tables,
            data,
            start,
            start if is_long else stop,
            room,
            text - first,
            limits[MAX_REFERENCE_STEPS],
            limits[READS_QUANTITIES] != 0,
        )
        if is_long:
            statuses[text] = OVER_LIMIT
        valid += statuses[text] == OK
    return texts, valid, True


@helper
def take_shares(
    progress,
    shares,
    order,
    responses,
    references,
    reference_index,
    alternatives,
    limits,
    configurations,
    tables,
    statuses,
    bad_lines,
    rewards,
    reasons,
    components,
    entries,
    memory,
    trials,
    stop_flag,
):
    """Take shares until none is left, in the memory of the next thread; see `BatchArrays`.

    Each array is an argument: with one tuple of all arrays, LLVM takes four times as long.
    """
    t = fetch_add(progress, NEXT_THREAD, 1)
    workspace = Workspace(memory.bytes[t], memory.ints[t], memory.seed)
    rooms = memory.references
    room = References(
        rooms.ranges[t],
        rooms.steps[t],
        rooms.ids[t],
        rooms.objects[t],
        rooms.starts[t],
        rooms.lengths[t],
        rooms.heads[t],
        rooms.slots[t],
        rooms.canon[t],
    )
    expected = References(
        read_only(room.ranges),
        read_only(room.steps),
        read_only(room.ids),
        read_only(room.objects),
        read_only(room.starts),
        read_only(room.lengths),
        read_only(room.heads),
        read_only(room.slots),
        read_only(room.canon),
    )
    reading = rules_at(configurations, 0)
    quantities = reads_quantities(configurations)
    number_limit, word_limit = largest_limits(configurations)
    while progress[INVALID] == 0 and progress[STOPPED] == 0:
        share = fetch_add(progress, NEXT_SHARE, 1)
        if share >= progress[LAST_SHARE]:
            break
        first, last = shares[share, 0], shares[share, 1]
        first_place, last_place = shares[share, 2], shares[share, 3]
        if alternatives.shape[0]:
            first, last = alternatives[first], alternatives[last]
        if first < last:
            texts, valid, finished = read_share(
                memory, t, room, references, first, last, statuses, bad_lines, limits, tables, workspace, stop_flag
            )
            if not finished:
                fetch_add(progress, STOPPED, 1)
                break
            if texts < last - first:
                fetch_add(progress, INVALID, 1)
                break
            if valid < last - first:
                fetch_add(progress, REFUSED, 1)
        if progress[REFUSED] != 0:
            continue  # only the statuses of all references are wanted
        data, offsets, is_encoded = responses.data, responses.offsets, responses.spans.shape[1] > 0
        if is_encoded:
            out, written = memory.text[t], memory.offsets[t]
            encode_texts(responses, order, first_place, last_place, limits[MAX_RESPONSE], out, written)
            data, offsets = read_only(out), read_only(written)
        for place in range(first_place, last_place):
            row = order[place]
            text = place - first_place if is_encoded else row
            start, stop = offsets[text], offsets[text + 1]
            if not responses.is_valid and not is_utf8(data, start, stop):
                fetch_add(progress, INVALID, 1)
                break
            reference, number = reference_index[row], np.int64(1)
            if alternatives.shape[0]:
                number = alternatives[reference + 1] - alternatives[reference]
                reference = alternatives[reference]
            if not score_response(
                rewards,
                reasons,
                components,
                entries,
                row,
                data,
                start,
                stop,
                reference - first,
                number,
                expected,
                configurations,
                reading,
                quantities,
                number_limit,
                word_limit,
                tables,
                workspace,
                trials[t],
                stop_flag,
            ):
                fetch_add(progress, STOPPED, 1)
                break


take_shares_on_threads = on_threads(take_shares)


@hot_kernel
def score_batch(helpers, batch):
    """Score shares of a batch (`BatchArrays`) on this thread and up to `helpers` more; return False if a thread has
    failed. The batch has memory for all of these threads.

    Once a reference is invalid, the others are read but nothing is scored. A share without references is scored against
    those that are in the memory.
    """
    return take_shares_on_threads(helpers, batch)
