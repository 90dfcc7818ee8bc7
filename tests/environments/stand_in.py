"""A stand-in for a model's server: OpenAI's chat completions, with answers chosen by what prompts contain.

Answers are given by a text that a prompt may contain, in turn. Only the standard library is used, so that it runs in
every framework's environment.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answers = Mapping[str, Sequence[str]]

MODEL = "stand-in"


def text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def completion(content: str) -> dict[str, Any]:
    """Return the reply to a request for a chat completion."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    about = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": MODEL}
    return {**about, "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}


def server_of(answers: Answers) -> ThreadingHTTPServer:
    """Return a server on a free port of this machine, which does not serve yet; to other prompts it replies 400."""
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            models = [{"id": MODEL, "object": "model", "created": 0, "owned_by": "test"}]
            self._reply(200, {"object": "list", "data": models})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = "\n".join(map(text_of, request["messages"]))
            text = next((text for text in answers if text in prompt), None)
            if text is None:
                self._reply(400, {"error": {"message": f"no answer for the prompt {prompt!r}"}})
                return
            with lock:
                content = answers[text][asked[text] % len(answers[text])]
                asked[text] += 1
            if request.get("stream"):
                self._stream(content)
            else:
                self._reply(200, completion(content))

        def _reply(self, status: int, document: Any) -> None:
            self._send(status, "application/json", json.dumps(document).encode())

        def _stream(self, content: str) -> None:
            whole = completion(content)
            (choice,) = whole["choices"]
            delta = {**choice, "delta": choice["message"]}
            event = {**whole, "object": "chat.completion.chunk", "choices": [delta]}
            self._send(200, "text/event-stream", f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())

        def _send(self, status: int, media_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Write nothing."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


@contextmanager
def stand_in(answers: Answers) -> Iterator[str]:
    """Serve in a thread; yield the address for OpenAI's clients, which ends with `/v1`."""
    server = server_of(answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
