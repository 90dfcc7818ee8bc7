"""Advantages over a whole file: groups may be scattered, so rows are complete only after the last one is scored.

Scored rows are spooled to a temporary file; 16 bytes per row and the group keys stay in memory.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import orjson

from ...scoring.scores import group_advantages
from .rows import PIECE_BYTES, Rollout, value_key

__all__ = ["GroupedRows"]


class GroupedRows:
    """Spools rows until their advantages are known; rows with a fault have none."""

    def __init__(self, temp_dir: str | None) -> None:
        self._temp_dir = temp_dir
        self._numbers: dict[str | bytes, int] = {}
        self._rewards = array("d")
        self._groups = array("q")

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile(dir=self._temp_dir)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, rollouts: Sequence[Rollout], rewards: np.ndarray, rows: Iterable[bytes]) -> None:
        """Add one piece: a row for every rollout, a reward (float64) for every rollout without a fault."""
        self._file.writelines(row + b"\n" for row in rows)
        self._rewards.extend(rewards.tolist())
        for rollout in rollouts:
            key = value_key(rollout.group)
            self._groups.append(-1 if rollout.fault else self._numbers.setdefault(key, len(self._numbers)))

    def rows(self, ddof: int) -> Iterator[list[bytes]]:
        """Yield all rows in order, in pieces, with `advantage` added to those with a reward.

        Raises InvalidRequest if no group has two rewards.
        """
        groups = np.frombuffer(self._groups, dtype=np.int64) if self._groups else np.zeros(0, dtype=np.int64)
        scored = groups >= 0
        found = group_advantages(np.array(self._rewards, dtype=np.float64), groups[scored], ddof)
        advantages = iter(found.tolist())
        self._file.seek(0)
        known = iter(scored.tolist())
        while piece := self._file.readlines(PIECE_BYTES):
            yield [_with_advantage(row[:-1], next(advantages)) if next(known) else row[:-1] for row in piece]


def _with_advantage(row: bytes, advantage: float) -> bytes:
    return row[:-1] + b',"advantage":' + orjson.dumps(advantage) + b"}"
