"""A judge's replies kept in a JSONL file, so that no question is asked twice and a result can be computed again."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from threading import Lock
from typing import IO, Any, NamedTuple

from ...errors import InvalidRequest, Issue

__all__ = ["JudgeReplies", "Judgement", "name_of"]

BEGINNING = b'{"request": "'


class Judgement(NamedTuple):
    texts: list[str]
    logprobs: dict[str, float] | None


class JudgeReplies:
    """A file of replies by request; safe to use from several threads at once.

    Each reply is appended when it arrives, so an evaluation that is interrupted loses nothing.
    """

    def __init__(self, path: str) -> None:
        if os.path.exists(path) and not os.path.isfile(path):
            raise refused(f"{path}: not a regular file")
        self.path = path
        self._lock = Lock()
        self._kept: dict[str, Judgement] = {}
        try:
            with open(path, "a+b") as stream:
                self._read(stream)
        except OSError as error:
            raise refused(f"{path}: {error.strerror or error}") from None

    def find(self, request: str) -> Judgement | None:
        return self._kept.get(request)

    def keep(self, request: str, judgement: Judgement) -> None:
        line = json.dumps({"request": request, **judgement._asdict()}).encode() + b"\n"
        with self._lock:
            self._kept[request] = judgement
            try:
                with open(self.path, "ab") as stream:
                    stream.write(line)
            except OSError as error:
                raise refused(f"{self.path}: {error.strerror or error}") from None

    def _read(self, stream: IO[bytes]) -> None:
        """Read the file; remove a last line that was not written completely."""
        stream.seek(0)
        end = 0
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n") and line[: len(BEGINNING)] == BEGINNING[: len(line)]:
                stream.truncate(end)
                return
            end += len(line)
            try:
                reply = json.loads(line)
                self._kept[reply["request"]] = Judgement(reply["texts"], reply["logprobs"])
            except (ValueError, KeyError, TypeError):
                raise refused(f"{self.path}: line {number} is not a judge's reply") from None


def refused(detail: str) -> InvalidRequest:
    return InvalidRequest([Issue("options.replies", "invalid_option", detail)])


def name_of(*parts: Any) -> str:
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
