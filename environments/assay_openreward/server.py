"""The environment and its server: a task is one row, and its terminal tool takes the answer."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from openreward.environments import Environment, Message, Server, TextBlock, ToolOutput, terminal, tool
from pydantic import BaseModel

from assay_environments import PreparedRow, metrics_of, read_rows, score_response_async
from assay_environments.scoring import ROWS_VARIABLE

SPLITS = ("train", "test")


class Answer(BaseModel):
    answer: str


@lru_cache
def rows_of(split: str) -> list[PreparedRow]:
    """Return the rows of a split of the folder in ASSAY_ROWS, or of the file, which is the split train.

    Clients choose the split, which must not be the path of another file; raises ValueError.
    """
    if split not in Assay.list_splits():
        raise ValueError("there is no split of this name")
    return read_rows(None, split)


class Assay(Environment):
    """Gives the prompt of a row and scores the answer; concurrent sessions share requests."""

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        path = Path(os.environ.get(ROWS_VARIABLE, ""))
        return [split for split in SPLITS if (path / f"{split}.jsonl").exists()] or SPLITS[:1]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[dict[str, Any]]:
        return [{"split": split, "index": index, "id": row.id} for index, row in enumerate(rows_of(split))]

    @property
    def row(self) -> PreparedRow:
        return rows_of(str(self.task_spec["split"]))[int(self.task_spec["index"])]

    def get_messages(self) -> Sequence[Message]:
        return [
            Message(role=message["role"], blocks=[TextBlock(text=message["content"])]) for message in self.row.prompt
        ]

    @terminal
    @tool
    async def submit(self, args: Answer) -> ToolOutput:
        """Score the answer and end the episode; raise AssayError, which is never a reward."""
        score = await score_response_async(self.row, args.answer)
        metadata = {"reason": score.reason, "signature": score.signature, **metrics_of(score)}
        return ToolOutput(blocks=[TextBlock(text=score.reason)], metadata=metadata, reward=score.reward, finished=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m assay_openreward", description="Serve prepared rows.")
    parser.add_argument("rows", nargs="?", help="file or folder that `assay prepare` wrote (default: ASSAY_ROWS)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args(arguments)
    if options.rows:
        os.environ[ROWS_VARIABLE] = options.rows
    Server([Assay]).run(options.host, options.port)
