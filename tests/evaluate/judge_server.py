"""A stand-in for a judge: an HTTP server in this process with the part of OpenAI's API that is used."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any], int], tuple[int, dict[str, str], Any]]
"""Takes a request's body and its number, and returns status, headers, and a document or raw bytes."""


class Judge:
    """The requests of the server, and how many were concurrent."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.held = self.most_held = 0
        self.lock = threading.Lock()
        self.base_url = ""


def completion(*texts: str | None, logprobs: dict[str, float] | None = None) -> dict[str, Any]:
    """Return a chat completion with one choice for each text."""
    choices: list[dict[str, Any]] = [
        {"index": k, "message": {"role": "assistant", "content": text}} for k, text in enumerate(texts)
    ]
    if logprobs is not None:
        top = [{"token": token, "logprob": value} for token, value in logprobs.items()]
        choices[0]["logprobs"] = {"content": [{"token": "4", "logprob": -0.1, "top_logprobs": top}]}
    return {"object": "chat.completion", "choices": choices}


def always(*texts: str | None, pause: float = 0.0) -> Answer:
    """Return a judge that gives the same text for each sample."""

    def answer(body: dict[str, Any], _: int) -> tuple[int, dict[str, str], Any]:
        time.sleep(pause)
        return 200, {}, completion(*(texts[k % len(texts)] for k in range(body["n"])))

    return answer


def handler_of(judge: Judge) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with judge.lock:
                judge.bodies.append(body)
                judge.keys.append(self.headers.get("Authorization"))
                judge.paths.append(self.path)
                number = len(judge.bodies) - 1
                judge.held += 1
                judge.most_held = max(judge.most_held, judge.held)
            try:
                status, headers, document = judge.answer(body, number)
            finally:
                with judge.lock:
                    judge.held -= 1
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            with suppress(OSError):  # the client may have timed out
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler


@contextmanager
def standing_in(answer: Answer) -> Iterator[Judge]:
    """Run a judge on a free port inside the block."""
    judge = Judge(answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(judge))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    judge.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield judge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
