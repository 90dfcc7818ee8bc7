"""Messages between the supervisor and its workers, over a private socket pair for each.

A message is a JSON object and bytes. The first one has the configuration and the environment. Then the worker sends a
report every second, when the supervisor asks, and at its end: its state, the series that are new, and as bytes all
values. The supervisor answers each one with the names of runs that label metrics and whether all workers have listened,
and `scrape` with the metrics of all workers. When the socket closes, the supervisor has ended and the worker drains as
after SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from ...config import Config, ServerSettings
from ...settings import ScoreSettings

LENGTHS = struct.Struct("!II")


def encode_message(message: dict[str, Any], body: bytes = b"") -> bytes:
    text = orjson.dumps(message)
    return LENGTHS.pack(len(text), len(body)) + text + body


async def messages(reader: asyncio.StreamReader) -> AsyncIterator[tuple[dict[str, Any], bytes]]:
    """Yield messages until the other process has ended, even in the middle of one."""
    with suppress(OSError, EOFError):
        while True:
            text, body = LENGTHS.unpack(await reader.readexactly(LENGTHS.size))
            yield orjson.loads(await reader.readexactly(text)), await reader.readexactly(body)


class Start(NamedTuple):
    """What a worker needs to know: the first message to it."""

    config: Config
    port: int
    slot: int
    listen_when_ready: bool


def start_message(start: Start) -> bytes:
    """Return the message, also with the environment, which the fork server lacks."""
    config = start.config
    server = config.server.model_dump(mode="json")
    server["api_keys"] = [key.get_secret_value() for key in config.server.api_keys]
    environment = {name.decode("latin-1"): value.decode("latin-1") for name, value in os.environb.items()}
    return encode_message(
        {
            "config": (server, config.score.model_dump(mode="json"), dict(config.origins), config.keys_of_file),
            "environment": environment,
            "place": start[1:],
        }
    )


def read_start(channel: socket.socket) -> Start:
    """Receive the message, and replace the environment; raise EOFError if the supervisor has ended."""
    lengths = channel.recv(LENGTHS.size, socket.MSG_WAITALL)
    if len(lengths) < LENGTHS.size:
        raise EOFError
    text, _ = LENGTHS.unpack(lengths)
    message = orjson.loads(channel.recv(text, socket.MSG_WAITALL))
    os.environb.clear()
    os.environb.update({k.encode("latin-1"): v.encode("latin-1") for k, v in message["environment"].items()})
    server, score, origins, keys_of_file = message["config"]
    settings = ServerSettings.model_validate(server), ScoreSettings.model_validate_json(orjson.dumps(score))
    return Start(Config(*settings, MappingProxyType(origins), keys_of_file), *message["place"])
