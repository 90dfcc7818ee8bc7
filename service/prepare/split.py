"""The splits `train` and `test`: whole groups, chosen by a seeded order that depends on nothing but their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256

from ..records.trainer_rows import json_text

__all__ = ["TEST", "TRAIN", "held_out_splits", "seeded_splits", "split_digest"]

TRAIN, TEST = "train", "test"


def seeded_splits(groups: Sequence[str], share: float, seed: int) -> list[str]:
    """Return the split of each record by its group and the wanted share of records in `test`, 0 to below 1.

    Groups are sorted by a hash of the seed and their name; `test` gets the first ones until it is as near as possible
    to its share, at least one record. Groups with more records than that are in `train`, which is never empty. The
    share is met within the size of the largest group. A record of a new group changes nothing but which groups come
    first: groups at the end of `test` may move, the others stay.
    """
    sizes = Counter(groups)
    target = max(1.0, share * len(groups)) if share > 0 else 0.0
    order = sorted(sizes, key=lambda name: blake2b(name.encode(), key=b"%d" % seed, digest_size=16).digest())
    fitting = [name for name in order if sizes[name] <= target]
    if len(fitting) == len(order):
        fitting = fitting[:-1]  # the last one is in train in any case
    test: set[str] = set()
    taken = 0
    for name in fitting:
        if taken + sizes[name] - target >= target - taken:  # without it, the share is at least as near
            break
        test.add(name)
        taken += sizes[name]
    return [TEST if group in test else TRAIN for group in groups]


def held_out_splits(groups: Sequence[str], held_out: Sequence[bool]) -> list[str | None]:
    """Return `test` for records that are held out, and `train` for others; None for those in a group with one."""
    tested = {group for group, out in zip(groups, held_out, strict=True) if out}
    return [TEST if out else None if group in tested else TRAIN for group, out in zip(groups, held_out, strict=True)]


def split_digest(rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the SHA-256 of all rows: [group, id, split] as JSON without spaces, a line each, sorted, in UTF-8."""
    lines = sorted(json_text(list(row)).encode() + b"\n" for row in rows)
    return sha256(b"".join(lines)).hexdigest()
