"""One interface to both clients, so that a test runs with each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assay_client import AsyncClient, Client, Score, Scores


class SyncFace:
    """`Client`; concurrent calls are made from threads."""

    def __init__(self, **settings: Any) -> None:
        self.client = Client(**settings)

    def score(self, *arguments: Any, **options: Any) -> Scores:
        return self.client.score(*arguments, **options)

    def score_one(self, *arguments: Any, **options: Any) -> Score:
        return self.client.score_one(*arguments, **options)

    def request(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        return self.client.request(*arguments, **options)

    def together(self, calls: list[tuple[Any, ...]], tasks: list[Any] | None = None, **options: Any) -> list[Any]:
        """Return the result or the error of each call of `score_one`, with a task each if given."""

        def call(arguments: tuple[Any, ...], task: str | None) -> Any:
            try:
                return self.client.score_one(*arguments, task=task, **options)
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(calls)) as threads:
            return list(threads.map(call, calls, tasks or [None] * len(calls)))

    def close(self) -> None:
        self.client.close()


class AsyncFace:
    """`AsyncClient`; each call runs in a separate event loop."""

    def __init__(self, **settings: Any) -> None:
        self.client = AsyncClient(**settings)

    def score(self, *arguments: Any, **options: Any) -> Scores:
        return asyncio.run(self.client.score(*arguments, **options))

    def score_one(self, *arguments: Any, **options: Any) -> Score:
        return asyncio.run(self.client.score_one(*arguments, **options))

    def request(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        return asyncio.run(self.client.request(*arguments, **options))

    def together(self, calls: list[tuple[Any, ...]], tasks: list[Any] | None = None, **options: Any) -> list[Any]:
        async def run() -> list[Any]:
            named = zip(calls, tasks or [None] * len(calls), strict=True)
            waiting = [self.client.score_one(*arguments, task=task, **options) for arguments, task in named]
            return await asyncio.gather(*waiting, return_exceptions=True)

        return asyncio.run(run())

    def close(self) -> None:
        asyncio.run(self.client.close())


Face = Callable[..., Any]


@pytest.fixture(params=[SyncFace, AsyncFace], ids=["sync", "async"])
def face(request: pytest.FixtureRequest) -> Any:
    """Return a function that creates clients of either kind, which are closed at the end."""
    made: list[Any] = []

    def make(**settings: Any) -> Any:
        made.append(request.param(**settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
