"""The environment and its server: an episode is one row, its prompt and one answer."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata, State

from assay_environments import PreparedRow, read_rows, score_response_async, score_responses
from assay_environments.scoring import Scored

from .client import AssayAction, AssayObservation


class AssayEnvironment(Environment[AssayAction, AssayObservation, State]):
    """Gives the prompt of a row and scores the answer; concurrent sessions share requests."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, rows: Sequence[PreparedRow], config: dict[str, Any] | None = None) -> None:
        super().__init__()
        self._rows = rows
        self._config = config
        self._row: PreparedRow | None = None
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, id: str | None = None, **unknown: Any
    ) -> AssayObservation:
        """Return the prompt of the row with this id, else of row `seed` modulo their number, else of a random one.

        Raises ValueError if no row has the id, or for other arguments.
        """
        if unknown:
            raise ValueError(f"reset has no such argument: {', '.join(unknown)}")
        self._row = self._chosen(seed, id)
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return self._observation(self._row)

    def step(self, action: AssayAction, timeout_s: float | None = None, **_others: Any) -> AssayObservation:
        """Return the answer's reward, with `done`; raise AssayError, which is never a reward, if it has none."""
        row = self._open_row()
        (score,) = score_responses([row], [action.answer], self._config)
        return self._result(row, score)

    async def step_async(self, action: AssayAction, timeout_s: float | None = None, **_others: Any) -> AssayObservation:
        row = self._open_row()
        return self._result(row, await score_response_async(row, action.answer, self._config))

    @property
    def state(self) -> State:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        tasks = sorted({row.task for row in self._rows})
        about = f"Prompts with rewards of Assay: {len(self._rows)} rows of {', '.join(tasks)}"
        return EnvironmentMetadata(name="assay", description=about)

    def _chosen(self, seed: int | None, name: str | None) -> PreparedRow:
        if name is not None:
            matches = [row for row in self._rows if row.id == name]
            if len(matches) != 1:
                raise ValueError(f"{len(matches)} rows have the id {name!r}")
            return matches[0]
        return random.choice(self._rows) if seed is None else self._rows[seed % len(self._rows)]

    def _open_row(self) -> PreparedRow:
        if self._row is None:
            raise RuntimeError("no prompt to answer: call reset first, in the same session")
        return self._row

    def _result(self, row: PreparedRow, score: Scored) -> AssayObservation:
        self._row = None
        self._state.step_count += 1
        observation = self._observation(row)
        observation.reward, observation.done = score.reward, True
        observation.reason, observation.passed = score.reason, bool(score.passed)
        observation.components, observation.signature = dict(score.components), score.signature
        return observation

    @staticmethod
    def _observation(row: PreparedRow) -> AssayObservation:
        return AssayObservation(id=row.id, task=row.task, messages=row.prompt)


def new_app(rows: str | None = None, split: str = "train", sessions: int = 256, **where: Any) -> FastAPI:
    """Return the application for the rows of a file or folder (by default ASSAY_ROWS) that `where` selects.

    sessions: how many may be open at once. Raises as `read_rows` does.
    """
    environment = partial(AssayEnvironment, read_rows(rows, split, **where))
    return create_app(environment, AssayAction, AssayObservation, env_name="assay", max_concurrent_envs=sessions)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m assay_openenv", description="Serve prepared rows with OpenEnv.")
    parser.add_argument("rows", nargs="?", help="file or folder that `assay prepare` wrote (default: ASSAY_ROWS)")
    parser.add_argument("--split", default="train", help="which file of the folder (default: train)")
    for name in ("task", "type", "level"):
        parser.add_argument(f"--{name}", help=f"only rows of this {name}")
    parser.add_argument("--sessions", type=int, default=256, help="how many may be open at once (default: 256)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    options = vars(parser.parse_args(arguments))
    host, port = options.pop("host"), options.pop("port")
    uvicorn.run(new_app(**options), host=host, port=port)
