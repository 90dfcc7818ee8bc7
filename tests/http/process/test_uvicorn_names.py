"""The private names of uvicorn that the service uses: which of them this version lacks, or has changed."""

from __future__ import annotations

import asyncio
import inspect
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.service.config import ServerSettings
from assay.service.http.process.server import uvicorn_config

PARAMETERS = {
    (HttpToolsProtocol, "connection_made"): "self transport",
    (HttpToolsProtocol, "connection_lost"): "self exc",
    (HttpToolsProtocol, "pause_writing"): "self",
    (HttpToolsProtocol, "on_message_begin"): "self",
    (HttpToolsProtocol, "on_headers_complete"): "self",
    (HttpToolsProtocol, "on_body"): "self body",
    (HttpToolsProtocol, "on_message_complete"): "self",
    (HttpToolsProtocol, "on_response_complete"): "self",
    (HttpToolsProtocol, "shutdown"): "self",
    (HttpToolsProtocol, "_unset_keepalive_if_required"): "self",
    (FlowControl, "pause_reading"): "self",
    (FlowControl, "resume_reading"): "self",
    (FlowControl, "drain"): "self",
    (uvicorn.Server, "startup"): "self sockets",
    (uvicorn.Server, "shutdown"): "self sockets",
    (uvicorn.Server, "on_tick"): "self counter",
    (uvicorn.Server, "handle_exit"): "self sig frame",
}
"""Methods that are overridden or called, with their parameters."""

ATTRIBUTES = {
    "protocol": "cycle flow headers parser pipeline scope transport url",
    "cycle": (
        "body chunked_encoding default_headers disconnected keep_alive message_event on_response receive "
        "response_complete response_started scope send waiting_for_100_continue"
    ),
    "flow": "write_paused",
    "server": "config force_exit server_state should_exit started",
    "server_state": "connections tasks",
}
"""Attributes of the objects that a connection with two requests consists of."""


async def wait(_scope, _receive, _send) -> None:
    """An application that answers nothing."""
    await asyncio.sleep(30)


async def objects() -> dict[str, Any]:
    """Return a server and a connection that has read two requests, and their parts."""
    config = uvicorn_config(wait, ServerSettings())
    config.load()
    server = uvicorn.Server(config)
    protocol = HttpToolsProtocol(config, server.server_state, {}, asyncio.get_running_loop())
    ours, theirs = socket.socketpair()
    with ours:
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, theirs)
        protocol.data_received(b"GET /one HTTP/1.1\r\nHost: test\r\n\r\nGET /two HTTP/1.1\r\nHost: test\r\n\r\n")
        transport.abort()
    parts = {"protocol": protocol, "cycle": protocol.cycle, "flow": protocol.flow}
    return parts | {"server": server, "server_state": server.server_state}


def test_every_name_is_there_as_it_was():
    wrong = []
    for (owner, name), parameters in PARAMETERS.items():
        actual = " ".join(inspect.signature(getattr(owner, name)).parameters) if hasattr(owner, name) else "missing"
        if actual != parameters:
            wrong.append(f"{owner.__name__}.{name}: {actual}, not {parameters}")
    for kind, instance in asyncio.run(objects()).items():
        wrong += [
            f"{type(instance).__name__}.{name}: missing"
            for name in ATTRIBUTES[kind].split()
            if not hasattr(instance, name)
        ]
    assert wrong == [], f"uvicorn {uvicorn.__version__}"
