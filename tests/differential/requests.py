"""HTTP requests to `assay serve` in seven configurations, with the replies as they are."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urljoin

import pyarrow as pa

from . import samples
from .samples import KEY, PERFECT, REFERENCES, RESPONSES, SETTINGS, STEPS, SWAPPED, TASKS

ARROW = "application/vnd.apache.arrow.stream"
JSON_HEADERS = {"Content-Type": "application/json"}
ARROW_HEADERS = {"Content-Type": ARROW}

Record = dict[str, Any]


class Request(NamedTuple):
    """One request; a body that is no bytes is sent as JSON."""

    name: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = JSON_HEADERS
    method: str = "POST"


class Service:
    """A running `assay serve` of the checkout under test, and a connection to it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log
        self.address = self._announced_address()
        self._connection = http.client.HTTPConnection(*self.address, timeout=60)
        while self.ask(Request("ready", "/readyz", method="GET"))["status"] != 200:
            time.sleep(0.05)

    def _announced_address(self) -> tuple[str, int]:
        while self._process.poll() is None:
            match = re.search(r"serving url=http://([\d.]+):(\d+)", self._log.read_text(encoding="utf-8"))
            if match:
                return match[1], int(match[2])
            time.sleep(0.05)
        raise RuntimeError(self._log.read_text(encoding="utf-8"))

    def ask(self, request: Request) -> Record:
        """Return status, headers and body of the reply; times and the port are masked."""
        status, headers, body = self._exchange(request)
        return self._record(status, headers, body)

    def ask_bytes(self, request: Request) -> tuple[int, bytes]:
        """Return the status and the body of the reply."""
        status, _, body = self._exchange(request)
        return status, body

    def _exchange(self, request: Request) -> tuple[int, list[tuple[str, str]], bytes]:
        body = request.body
        if request.method == "POST" and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"X-Request-ID": "differential", **request.headers}
        self._connection.request(request.method, request.path, body, headers)
        reply = self._connection.getresponse()
        return reply.status, reply.getheaders(), reply.read()

    def ask_raw(self, data: bytes) -> Record:
        """Send bytes that may be no HTTP; return the reply up to the end of the connection."""
        with socket.create_connection(self.address, timeout=30) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            reply = b"".join(iter(lambda: connection.recv(65_536), b""))
        text = reply.decode("latin-1")
        text = re.sub(r"(?i)(date: |x-request-id: |\"instance\":\")[^\r\n\"]+", r"\1…", text)
        text = re.sub(r"dur=[\d.]+", "dur=…", text)
        return {"reply": text.replace(str(self.address[1]), "PORT")}

    def _record(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> Record:
        kept = {name.lower(): value for name, value in headers if name.lower() != "date"}
        if "server-timing" in kept:
            stages = re.findall(r"(\w+);dur", kept["server-timing"])
            kept["server-timing"] = ", ".join(stage for stage in stages if stage != "queue")  # if it had to wait
            if not kept["server-timing"]:
                del kept["server-timing"]
        try:
            text = body.decode().replace(f":{self.address[1]}", ":PORT")
        except UnicodeDecodeError:
            text = f"{len(body)} bytes: {body.hex()}"
        return {"status": status, "headers": kept, "body": text}


@contextmanager
def running(*flags: str, **environ: str) -> Iterator[Service]:
    """Start a service with these flags, and stop it at the end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    with TemporaryDirectory() as folder, open(Path(folder) / "log", "wb") as log:
        fixed = ("--port", "0", "--drain-seconds", "0", "--keep-alive-seconds", "3600")
        process = subprocess.Popen(
            [sys.executable, "-m", "assay", "serve", *fixed, *flags],
            **{"cwd": folder, "env": clean | environ, "stdout": log, "stderr": subprocess.STDOUT},
        )
        try:
            yield Service(process, Path(folder) / "log")
        finally:
            process.terminate()
            process.wait(60)


def stream(**columns: Any) -> bytes:
    """Return an Arrow stream of columns."""
    table, body = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    return body.getvalue()


def query(**parameters: Any) -> str:
    """Return parameters of a URL; those that are objects or lists as JSON."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
    return urlencode(texts)


# ---------------------------------------------------------------------------------------------------- published vectors


def golden() -> Iterator[Request]:
    """Every vector of SCORE alone, in batches, as Arrow, and explained; every vector of the evaluation."""
    for number, case in enumerate(samples.vectors("score")):
        document = {"references": [case["reference"]], "responses": [case["response"]], "config": case["config"]}
        yield Request(case["id"], "/v1/score", document | {"include": ["components"]})
        if number % 3 == 0:
            document = {"reference": case["reference"], "response": case["response"], "config": case["config"]}
            yield Request(f"explain {case['id']}", "/v1/explain", document)
    for number, cases in enumerate(samples.vector_batches()):
        config = cases[0]["config"]
        responses = [case["response"] for case in cases]
        document = {"references": [case["reference"] for case in cases], "responses": responses, "config": config}
        yield Request(f"batch {number}", "/v1/score", document | {"include": ["components"]})
        for k, settings in enumerate(SETTINGS):
            yield Request(f"batch {number}, configuration {k}", "/v1/score", document | {"config": settings})
        yield Request(f"batch {number}, configurations", "/v1/score", document | {"configs": SETTINGS})
        text_cases = [case for case in cases if isinstance(case["reference"], str)]
        if text_cases:
            columns = {name: [case[name] for case in text_cases] for name in ("response", "reference")}
            groups = [k % 3 for k in range(len(text_cases))]
            path = "/v1/score?" + query(config=config, include="components,advantages")
            with suppress(UnicodeEncodeError):  # a lone surrogate
                yield Request(f"batch {number}, Arrow", path, stream(**columns, group=groups), ARROW_HEADERS)
    by_profile: dict[str, list[Any]] = {}
    for case in samples.vectors("evaluate"):
        by_profile.setdefault(case["profile"], []).append({name: case.get(name) for name in ("response", "reference")})
    for profile, records in by_profile.items():
        for start in range(0, len(records), 50):
            document = {"task": "score", "records": records[start : start + 50], "options": {"profile": profile}}
            yield Request(f"evaluate {profile} {start}", "/v1/evaluate", document)


# ----------------------------------------------------------------------------------------------------------- documents

PROMPT = "<|im_start|>user\nHow?<|im_end|>\n<|im_start|>assistant\n"
GYM = "/compat/nemo-gym"


MIXED = {
    "responses": [RESPONSES[task][k] for k in range(2) for task in TASKS],
    "references": [REFERENCES[task][0] for task in TASKS],
    "reference_index": [*range(len(TASKS))] * 2,
    "groups": [k % 4 for k in range(2 * len(TASKS))],
    "task": TASKS * 2,
    "include": ["components", "advantages"],
    "config": {"order": "lcs", "bioprobench.ord": {"repeats": "failed"}, "lexical": {"reward": "rouge_l"}},
}


def trainer_body(path: str, text: str, label: Any, thought: str | None = "hm") -> dict[str, Any]:
    """Return a trainer's request with one rollout; only NeMo Gym sends a thought apart from the text."""
    if path == "/compat/openrlhf":
        return {"query": [PROMPT + text], "prompts": [PROMPT], "labels": [label]}
    if path == "/compat/slime":
        return {"prompt": PROMPT, "response": text, "label": label}
    output: list[dict[str, Any]] = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    if thought is not None:
        output.insert(0, {"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]})
    row = {"responses_create_params": {"input": PROMPT}, "response": {"output": output}, "reference": label}
    return row | {"id": "r1", "level": 2}


TRAINERS = ("/compat/openrlhf", "/compat/slime", f"{GYM}/verify")

EVALUATIONS: dict[str, dict[str, Any]] = {
    "score": {"response": PERFECT, "reference": KEY, "level": 1, "type": "planning"},
    "scirecipe": {"response": SWAPPED, "reference": PERFECT},
    "lexical": {"response": "Add the buffer.", "reference": "Add lysis buffer."},
    "bioprobench.pqa": {"answer": "2 h", "generated_response": samples.marked("2 h & 90")},
    "bioprobench.ord": {**samples.ORDER, "generated_response": samples.marked("[1, 2, 0]")},
    "bioprobench.err": {**samples.WRONG_STEP, "generated_response": samples.marked("False")},
    "bioprobench.gen": {"output": ["1. Weigh."], "generated_response": "1. Weigh it."},
    "bioprobench.rea_err": {**samples.WRONG_STEP, "generated_response": samples.marked("False"), "LLM_judge": "True"},
    "bioplanner": {
        **{"ground_truth": samples.PROGRAM, "prediction_code": "spin(cells='HeLa')"},
        **{"prediction_functions": "def spin(cells):\n    pass"},
    },
    "llam_eval": {"criterion": "Coherence", "responses": ["4", "- Coherence: 5", "?"]},
}
"""A record of every task."""


def documents() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a name, a path and a valid request of every kind."""
    score = {"responses": [PERFECT, SWAPPED], "references": [KEY], "groups": ["a", "a"], "config": {"order": "lcs"}}
    yield "native", "/v1/score", score | {"include": ["components", "advantages"], "reference_index": [0, 0]}
    yield "configs", "/v1/score", {"responses": [SWAPPED], "references": [STEPS], "configs": [{}, {"order": "lcs"}]}
    yield "mixed", "/v1/score", MIXED
    for task in TASKS[1:]:
        config = {"reward": "rouge_l"} if task == "lexical" else {}
        document = {"task": task, "responses": RESPONSES[task], "references": REFERENCES[task][-1:], "config": config}
        yield task, "/v1/score", document | {"include": ["components", "advantages"]}
    explained = {"response": SWAPPED, "reference": KEY, "config": {"order": "lcs"}, "suggestions": 2}
    yield "explain", "/v1/explain", explained
    for task, record in EVALUATIONS.items():
        yield f"evaluate {task}", "/v1/evaluate", {"task": task, "records": [record, {}], "options": {"by": ["type"]}}
    for path in TRAINERS:
        yield path, path, trainer_body(path, SWAPPED, KEY)
    for name in ("seed_session", "close_session"):
        yield name, f"{GYM}/{name}", {"resources_session_id": "s", "reference": KEY}
    rows = [{"_ng_task_index": k // 2, "_ng_rollout_index": k, "reward": k / 3, "score_task": k % 2} for k in range(5)]
    yield "aggregate", f"{GYM}/aggregate_metrics", {"verify_responses": rows}


VALUES = r"""
null true 0 -1 0.5 1e400 1180591620717411303424 "x" [] [null] [[]] {} {"a":1} ["score"] ["components",1]
"\ud83d" ["x","x"] [0,1] "{\"steps\":1}" ["score","nope"]
"""
PLACE = "@place@"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member down to the third level, and of the first element of every list."""
    if path:
        yield path
    if isinstance(value, dict) and len(path) < 3:
        for name, member in value.items():
            yield from places(member, (*path, name))
        yield (*path, "surprise")
    elif isinstance(value, list) and value and len(path) < 3:
        yield from places(value[0], (*path, 0))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return the document with another value at a path."""
    if not path:
        return value
    changed = list(document) if isinstance(document, list) else dict(document)
    inner = document[path[0]] if isinstance(document, list) else document.get(path[0])
    changed[path[0]] = with_value(inner, path[1:], value)
    return changed


def odd_documents() -> Iterator[Request]:
    """Every document with a value of every type at every place, and without each member."""
    for name, path, document in documents():
        yield Request(f"{name}: valid", path, document)
        for member in document:
            yield Request(f"{name}: no {member}", path, {key: document[key] for key in document if key != member})
        for place in places(document):
            text = json.dumps(with_value(document, place, PLACE))
            for value in (*VALUES.split(), '""'):
                body = text.replace(f'"{PLACE}"', value).encode()
                yield Request(f"{name}: {place} = {value}", path, body)


NOT_JSON = (
    *(b"", b" \n", b"references", b"{", b"null", b"[]", b'"x"', b'{"references": [], "responses": [],}'),
    *(b'{"references": [], "responses": [NaN]}', b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"{}x", b"{}\0"),
    *(b'{"responses": ["\xff"]}', b'{"responses": ["\x01"]}', b'{"responses": ["\\ud83d"]}', b"[" * 100_000),
    *(b'{"responses": ["\xed\xa0\x80"]}', b'{"references": ' + b"[" * 5000 + b"]" * 5000 + b', "responses": []}'),
)

MEDIA_TYPES = ("text/plain", "application/json; charset=utf-8", "application/json; charset=utf-16", "", ARROW, "*/*")

QUERIES = """
order=lcs order=lc ordr=lcs min_coverage=7&min_coverage=8 order=%ff order = &&order=lcs& max_steps=1025
max_steps=2 think_prefilled=true use_order=perhaps advantage_ddof=0 config={} task=score task=nope
task=bioprobench.pqa task=bioprobench.ord&repeats=failed task=lexical task=lexical&reward=rouge_l
task=bioprobench.ord&order=lcs task_field=task task_field=label.task
task_field=task&order=lcs&bioprobench.ord.repeats=failed task_field=task&bioprobench.ord.x=1 task_field=
task_field=task&nope.x=1 task_field=task&task=score format=float format=list scores=passed run=a scores=x
reference_field=id reference_field=a.b on_bad_reference=mask on_bad_reference=x run=
on_bad_reference=mask&reference_field=gold include=components options=1 task_field=id&run=%00
"""

LABELS: tuple[Any, ...] = (
    *(KEY, PERFECT, STEPS, "", None, 5, True, [], {}, {"steps": []}, "Step 1: x", {"task": None, "reference": KEY}),
    *({"task": "bioprobench.pqa", "reference": "5 µM"}, {"task": "bioprobench.ord", **samples.ORDER}, {"task": 1}),
    *('{"task": "bioprobench.err", "reference": false}', {"task": "nope", "reference": KEY}, {"task": "lexical"}),
    *({"task": "bioprobench.pqa", "reference": None, "answer": "5 µM"}, {"task": "score", "reference": "x"}),
)


def wire() -> Iterator[Request]:
    """Bodies that are no JSON, media types, encodings, deadlines, and what trainers put into URLs."""
    bodies = {path: json.dumps(document).encode() for _, path, document in documents()}
    for path, body in bodies.items():
        for number, data in enumerate(NOT_JSON):
            yield Request(f"{path}: not JSON {number}", path, data)
        for media_type in MEDIA_TYPES:
            yield Request(f"{path}: {media_type}", path, body, {"Content-Type": media_type})
        encodings = {"gzip": gzip.compress(body, mtime=0), "deflate": zlib.compress(body), "br": body}
        encodings["zstd"] = pa.compress(body, codec="zstd", asbytes=True)
        for encoding, data in encodings.items():
            headers = JSON_HEADERS | {"Content-Encoding": encoding}
            yield Request(f"{path}: {encoding}", path, data, headers)
            yield Request(f"{path}: truncated {encoding}", path, data[:-9], headers)
        for seconds in ("1e-9", "", "x", "-1", "30", "1e9"):
            yield Request(f"{path}: time-out {seconds}", path, body, JSON_HEADERS | {"X-Request-Timeout": seconds})
        yield Request(f"{path}: slash", path + "/", body)
        yield Request(f"{path}: query", path + "?order=lcs", body)
        for method in ("GET", "PUT", "OPTIONS"):
            yield Request(f"{path}: {method}", path, body, method=method)
    for path in TRAINERS:
        for text in QUERIES.split():
            yield Request(f"{path}?{text}", f"{path}?{text}", trainer_body(path, SWAPPED, KEY))
        for number, label in enumerate(LABELS):
            for text in ("", "?task_field=task", "?task_field=label.task", "?task=bioprobench.pqa"):
                row = trainer_body(path, SWAPPED, label) | {"task": "bioprobench.pqa" if number % 3 else None}
                yield Request(f"{path}{text}: label {number}", path + text, row)
        for task in TASKS:
            for response in RESPONSES[task]:
                label = {"task": task, "reference": REFERENCES[task][0]}
                row = trainer_body(path, response, label) | {"task": task}
                name = f"{path}: {task}: {response[:40]}"
                yield Request(name, path + "?task_field=task&lexical.reward=rouge_l", row)
    for text in ("task=bioprobench.pqa", "include=components", "include=x", "config={", "config=%7B%22order%22:1%7D"):
        yield Request(f"native?{text}", f"/v1/score?{text}", {"responses": ["5 µM"], "references": [KEY]})
    empty = {"query": [], "prompts": [], "labels": []}
    ragged = {"query": ["a", "b"], "prompts": ["a"], "labels": [KEY, KEY, KEY]}
    many = {"query": [SWAPPED] * 40, "prompts": [""] * 40, "labels": [KEY, "x"] * 20}
    for name, document in {"empty": empty, "ragged": ragged, "many": many}.items():
        yield Request(f"OpenRLHF {name}", TRAINERS[0], document)
    for name, size in {"response": 300_000, "reference": 300_000}.items():
        texts = {"response": PERFECT, "reference": KEY} | {name: PERFECT + " " * size}
        document = {"responses": [texts["response"]], "references": [texts["reference"]]}
        yield Request(f"long {name}", "/v1/score", document)
        yield Request(f"explain long {name}", "/v1/explain", texts)
    steps = {"steps": [samples.SPIN] * 1025}
    yield Request("many steps", "/v1/score", {"responses": [PERFECT], "references": [steps]})
    yield Request("many errors", "/v1/score", {"responses": [5] * 150, "references": ["x"] * 150})


def arrow() -> Iterator[Request]:
    """Arrow streams of every type of column, and streams that cannot be read."""
    texts = {"response": [PERFECT, SWAPPED, "x"], "reference": [KEY, KEY, PERFECT]}
    plain = stream(**texts)
    streams = {
        "plain": plain,
        **{"nothing": b"", "text": b"ARROW1", "half": plain[:200], "truncated": plain[:-40]},
        "groups": stream(**texts, group=["a", "a", "b"]),
        "bad group": stream(**texts, group=[0.5, 1, 2]),
        "null group": stream(**texts, group=["a", None, "a"]),
        "null task": stream(**texts, task=["score", None, "score"]),
        "int task": stream(**texts, task=[0, 1, 2]),
        "extra": stream(**texts, more=[1, 2, 3]),
        "no reference": stream(response=["x"]),
        "null": stream(response=[None, "x"], reference=[KEY, None]),
        "int": stream(response=[1, 2], reference=[1, 2]),
        "bad references": stream(response=["x"] * 4, reference=["", KEY, "x", ""]),
        "dictionary": stream(response=texts["response"], reference=pa.array(texts["reference"]).dictionary_encode()),
    }
    for kind in (pa.large_string(), pa.string_view(), pa.binary()):
        streams[str(kind)] = stream(**{name: pa.array(column, kind) for name, column in texts.items()})
    for kind in (pa.string(), pa.null()):
        streams[f"no rows, {kind}"] = stream(**{name: pa.array([], kind) for name in texts})
    rows = [row for row in samples.mixed_rows() if row["task"] in TASKS]
    for valid in (True, False):
        chosen = [row for row in rows if not valid or row["id"] % 17 != 16]
        columns = {name: [row[name] for row in chosen] for name in ("response", "reference", "task")}
        streams[f"mixed {valid}"] = stream(**columns, group=[row["prompt"] for row in chosen])
    options = quote('{"lexical": {"reward": "rouge_l"}, "order": "lcs"}')
    queries = ("", "include=components,advantages", f"config={options}", "task=score", "task=nope", "config=[]", "x=1")
    for name, data in streams.items():
        for text in queries:
            yield Request(f"Arrow {name}?{text}", f"/v1/score?{text}", data, ARROW_HEADERS)
    packed = gzip.compress(streams["plain"], mtime=0)
    yield Request("Arrow gzip", "/v1/score", packed, ARROW_HEADERS | {"Content-Encoding": "gzip"})


def pages(service: Service) -> Iterator[Request]:
    """Every route that the description has, and every file that a page names."""
    described = json.loads(service.ask(Request("", "/openapi.json", method="GET"))["body"] or "{}").get("paths", {})
    paths = ["/", "/docs", "/openapi.json", "/docs/openapi.json", "/nope", "/v1/nope", "/compat", *described]
    accepts_html = {"Accept": "text/html"}
    for path in ("/", "/docs"):
        page = service.ask(Request("", path, headers=accepts_html, method="GET"))["body"]
        paths += [urljoin(path, link) for link in re.findall(r'(?:src|href)="([\w./-]+)"', page)]
    for path in paths:  # grows: scripts import further ones
        if path.startswith("/playground/") and path.endswith(".js"):
            script = service.ask(Request("", path, method="GET"))["body"]
            links = [urljoin(path, link) for link in re.findall(r'from "(\./[\w./-]+)"', script)]
            paths += [link for link in links if link not in paths]
    for path in dict.fromkeys(paths):
        if path == "/metrics":
            continue
        for method in ("GET", "HEAD", "DELETE"):
            yield Request(f"{method} {path}", path, None, {}, method)
        yield Request(f"GET {path} as HTML", path, None, accepts_html | {"Accept-Encoding": "gzip"}, "GET")


RAW = (
    *(b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /livez HTTP/1.1\r\n\r\n", b"\0" * 100, b"GET\r\n\r\n"),
    *(b"GET /livez HTTP/1.0\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"),
    b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n{}",
    b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n{}",
    b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /v1/config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
    b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n",
)


def metrics(service: Service) -> Record:
    """Return every line of the metrics; values of times, sizes and processes are masked."""
    text = service.ask(Request("", "/metrics", method="GET"))["body"]
    unsteady = r"(?m)^((?:\w*(?:seconds|bytes|python|process|threads|queue|build)\w*)(?:\{.*\})?) \S+$"
    lines = re.sub(unsteady, r"\1 …", text).split("\n")
    return {"body": "\n".join(sorted(line for line in lines if "not_ready" not in line and "/readyz" not in line))}


SERVICES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "default": ((), {}),
    "threads": (("--inline-bytes", "0", "--threads", "1", "--no-docs", "--no-playground"), {}),
    "small": (
        ("--max-body-bytes", "3000", "--max-responses", "3", "--max-reference-bytes", "200", "--max-steps", "2"),
        {"ASSAY_MAX_RESPONSE_BYTES": "400"},
    ),
    "keys": (("--max-runs", "1"), {"ASSAY_API_KEYS": "the-key,another"}),
    "lcs": (("--order", "lcs", "--semantics", "product", "--reward-scale", "shift", "--min-coverage", "0.5"), {}),
    "sums": (("--total", "sum", "--length-penalty", "relative", "--think-prefilled", "--advantage-ddof", "0"), {}),
    "workers": (("--workers", "2", "--object-similarity", "max", "--content-denominator", "max_len"), {}),
}
"""Flags and environment of seven services."""


KEYS = ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer the-key"}, {"Authorization": "Basic eDphbm90aGVy"})


def requests_to(name: str) -> list[Request]:
    """Return all requests to the service with default settings, and some of them to the others."""
    valid = [Request(name, path, document) for name, path, document in documents()]
    errors = [*odd_documents(), *wire(), *arrow()]
    if name == "default":
        return [*golden(), *errors]
    if name == "threads":
        return [*list(golden())[::2], *errors[::8]]
    requests = [*valid, *list(golden())[::9], *errors[::29]]
    if name != "keys":
        return requests
    return [
        request._replace(name=f"{request.name}, key {number}", headers={**request.headers, **key})
        for number, key in enumerate(KEYS)
        for request in (requests if number == 2 else valid)
    ]


def record_requests() -> Iterator[tuple[str, Record]]:
    """Yield the name of every request and its reply."""
    for name, (flags, environ) in SERVICES.items():
        with running(*flags, **environ) as service:
            requests = requests_to(name)
            if name in ("default", "threads", "keys"):
                requests += pages(service)
            for request in requests:
                yield f"{name}: {request.name}", service.ask(request)
            for number, data in enumerate(RAW):
                yield f"{name}: raw {number}", service.ask_raw(data)
            if name != "workers":  # which of the two answers depends on the kernel
                yield f"{name}: metrics", metrics(service)
