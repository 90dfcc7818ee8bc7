"""HTTP requests to `assay serve` in four configurations, with the replies as they are."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import pyarrow as pa

from tests import servers

from . import samples
from .batches import new_batch
from .samples import KEY, PERFECT, REFERENCES, RESPONSES, STEPS, SWAPPED, TASKS

servers.COMMAND = [sys.executable, "-m", "assay", "serve"]

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


@contextmanager
def running(*flags: str, **environ: str) -> Iterator[httpx.Client]:
    """Start a service of the checkout under test with these flags; yield a client of it."""
    fixed = ("--drain-seconds", "0", "--keep-alive-seconds", "3600")
    with servers.launched(*fixed, *flags, environ=environ) as server:
        server.wait_until_ready()
        with server.client(headers={"Accept-Encoding": "identity", "X-Request-ID": "differential"}) as client:
            yield client


def reply_to(client: httpx.Client, request: Request) -> httpx.Response:
    body = request.body
    if request.method == "POST" and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return client.request(request.method, request.path, content=body, headers=request.headers)


def ask(client: httpx.Client, request: Request) -> Record:
    """Return status, headers and body of the reply; times and the port are masked."""
    reply = reply_to(client, request)
    headers = {name: value for name, value in reply.headers.items() if name != "date"}
    stages = re.findall(r"(\w+);dur", headers.pop("server-timing", ""))
    try:
        text = reply.content.decode().replace(f":{client.base_url.port}", ":PORT")
    except UnicodeDecodeError:
        text = f"{len(reply.content)} bytes: {reply.content.hex()}"
    timed = [stage for stage in stages if stage != "queue"]  # if it had to wait
    return {"status": reply.status_code, "headers": headers, "stages": timed, "body": text}


def stream(**columns: Any) -> bytes:
    """Return an Arrow stream of columns."""
    table, body = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(body, table.schema) as writer:
        writer.write_table(table)
    return body.getvalue()


def query(**parameters: Any) -> str:
    """Return parameters of a URL; those that are objects or lists as JSON."""
    return urlencode(
        {name: value if isinstance(value, str) else json.dumps(value) for name, value in parameters.items()}
    )


def golden() -> Iterator[Request]:
    """Yield every vector of SCORE, some explained too, and every vector of the evaluation."""
    for number, case in enumerate(samples.vectors("score")):
        document = {"references": [case["reference"]], "responses": [case["response"]], "config": case["config"]}
        yield Request(case["id"], "/v1/score", document | {"include": ["components"]})
        if number % 3 == 0:
            explained = {name: case[name] for name in ("reference", "response", "config")}
            yield Request(f"explain {case['id']}", "/v1/explain", explained)
    for case in samples.vectors("evaluate"):
        records = [{name: case.get(name) for name in ("response", "reference")}]
        document = {"task": "score", "records": records, "options": {"profile": case["profile"]}}
        yield Request(f"evaluate {case['id']}", "/v1/evaluate", document)


PROMPT = "<|im_start|>user\nHow?<|im_end|>\n<|im_start|>assistant\n"
GYM = "/compat/nemo-gym"
TRAINERS = ("/compat/openrlhf", "/compat/slime", f"{GYM}/verify")


def trainer_body(path: str, text: str, label: Any, thought: str | None = "hm") -> dict[str, Any]:
    """Return a trainer's request with one rollout; only NeMo Gym sends a thought apart from the text."""
    if path == "/compat/openrlhf":
        return {"query": [PROMPT + text], "prompts": [PROMPT], "labels": [label]}
    if path == "/compat/slime":
        return {"prompt": PROMPT, "response": text, "label": label}
    output: list[dict[str, Any]] = [{"type": "message", "content": [{"type": "output_text", "text": text}]}]
    if thought is not None:
        output.insert(0, {"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]})
    return {"responses_create_params": {"input": PROMPT}, "response": {"output": output}, "reference": label}


def documents() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a name, a path and a valid request of every kind."""
    score = {"responses": [PERFECT, SWAPPED], "references": [KEY], "groups": ["a", "a"], "config": {"order": "lcs"}}
    yield "native", "/v1/score", score | {"include": ["components", "advantages"], "reference_index": [0, 0]}
    yield "configs", "/v1/score", {"responses": [SWAPPED], "references": [STEPS], "configs": [{}, {"order": "lcs"}]}
    alternatives = {"responses": [SWAPPED, "x"], "references": [{"any_of": [STEPS, KEY]}, KEY]}
    yield "steps", "/v1/score", alternatives | {"include": ["steps"], "configs": [{"order": "lcs"}]}
    yield "mixed", "/v1/score", samples.MIXED
    for task in TASKS[1:]:
        config = {"reward": "rouge_l"} if task == "lexical" else {}
        document = {"task": task, "responses": RESPONSES[task], "references": REFERENCES[task][-1:], "config": config}
        yield task, "/v1/score", document | {"include": ["components", "advantages"]}
    explained = {"response": SWAPPED, "reference": KEY, "config": {"order": "lcs"}, "suggestions": 2}
    yield "explain", "/v1/explain", explained
    for task, record in samples.EVALUATIONS.items():
        yield f"evaluate {task}", "/v1/evaluate", {"task": task, "records": [record, {}], "options": {"by": ["type"]}}
    for path in TRAINERS:
        yield path, path, trainer_body(path, SWAPPED, KEY)
    rows = [{"_ng_task_index": k // 2, "_ng_rollout_index": k, "reward": k / 3, "score_task": k % 2} for k in range(5)]
    yield "aggregate", f"{GYM}/aggregate_metrics", {"verify_responses": rows}


VALUES = r"""
null true 0 -1 0.5 1e400 1180591620717411303424 "x" "" [] [null] [[]] {} {"a":1} ["score"] ["components",1]
"\ud83d" ["x","x"] [0,1] "{\"steps\":1}" ["score","nope"]
"""


def odd_documents() -> Iterator[Request]:
    """Yield every document with a value of every type at every member, and without the member."""
    for name, path, document in documents():
        yield Request(f"{name}: valid", path, document)
        inner = [(outer, member) for outer, value in document.items() if isinstance(value, dict) for member in value]
        for place in [*((member,) for member in (*document, "surprise")), *inner]:
            *outer, member = place
            target = document[outer[0]] if outer else document
            without = {key: value for key, value in target.items() if key != member}
            for value in (None, *VALUES.split()):
                text = json.dumps(without)
                text = text if value is None else f'{text[:-1]}{", " * bool(without)}"{member}": {value}}}'
                if outer:
                    others = json.dumps({key: value for key, value in document.items() if key != outer[0]})
                    text = f'{others[:-1]}, "{outer[0]}": {text}}}'
                yield Request(f"{name}: {place} = {value}", path, text.encode())


NOT_JSON = (
    *(b"", b"references", b"{", b"null", b"[]", b'{"references": [], "responses": [],}', b"[" * 100_000, b"{}\0"),
    *(b'{"references": [], "responses": [NaN]}', b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b'{"responses": ["\xff"]}'),
    *(b'{"responses": ["\\ud83d"]}', b'{"references": ' + b"[" * 5000 + b"]" * 5000 + b', "responses": []}'),
)
QUERIES = """
order=lcs order=lc ordr=lcs min_coverage=7&min_coverage=8 order=%ff order = &&order=lcs& max_steps=1025 max_steps=2
think_prefilled=true use_order=perhaps config={} task=nope task=bioprobench.ord&repeats=failed task_field=label.task
task=lexical&reward=rouge_l task=bioprobench.ord&order=lcs task_field= task_field=task&nope.x=1 include=components
task_field=task&order=lcs&bioprobench.ord.repeats=failed task_field=task&task=score format=float format=list run=a
scores=passed reference_field=id reference_field=a.b on_bad_reference=mask on_bad_reference=x run=%00 config={
"""
LABELS: tuple[Any, ...] = (
    *(KEY, STEPS, "", None, 5, True, [], {}, {"steps": []}, "Step 1: x", {"task": None, "reference": KEY}, {"task": 1}),
    *({"task": "bioprobench.pqa", "reference": None, "answer": "5 µM"}, {"task": "bioprobench.ord", **samples.ORDER}),
    *('{"task": "bioprobench.err", "reference": false}', {"task": "nope", "reference": KEY}, {"task": "lexical"}),
)


def wire() -> Iterator[Request]:
    """Yield bodies that are no JSON, media types, encodings, deadlines, and what trainers put into URLs."""
    for path, body in {path: json.dumps(document).encode() for _, path, document in documents()}.items():
        for number, data in enumerate(NOT_JSON):
            yield Request(f"{path}: not JSON {number}", path, data)
        for media_type in ("text/plain", "application/json; charset=utf-16", "", ARROW):
            yield Request(f"{path}: {media_type}", path, body, {"Content-Type": media_type})
        encodings = {"gzip": gzip.compress(body, mtime=0), "zstd": pa.compress(body, codec="zstd", asbytes=True)}
        for encoding, data in {**encodings, "br": body}.items():
            headers = JSON_HEADERS | {"Content-Encoding": encoding}
            yield Request(f"{path}: {encoding}", path, data, headers)
            yield Request(f"{path}: truncated {encoding}", path, data[:-9], headers)
        for method in ("GET", "PUT", "OPTIONS"):
            yield Request(f"{path}: {method}", path, body, method=method)
    for path in ("/v1/score", *TRAINERS):
        native = {"responses": ["5 µM"], "references": [KEY]}
        for text in QUERIES.split():
            body = native if path == "/v1/score" else trainer_body(path, SWAPPED, KEY)
            yield Request(f"{path}?{text}", f"{path}?{text}", body)
    for path in TRAINERS:
        for number, label in enumerate(LABELS):
            for text in ("", "?task_field=task", "?task_field=label.task", "?task=bioprobench.pqa"):
                row = trainer_body(path, SWAPPED, label) | {"task": "bioprobench.pqa" if number % 3 else None}
                yield Request(f"{path}{text}: label {number}", path + text, row)
    yield Request("long", "/v1/score", {"responses": [PERFECT + " " * 300_000] * 2, "references": [KEY, "x" * 300_000]})
    yield Request("many errors", "/v1/score", {"responses": [5] * 150, "references": ["x"] * 150})


def arrow() -> Iterator[Request]:
    """Yield Arrow streams of every type of column, and streams that cannot be read."""
    texts = {"response": [PERFECT, SWAPPED, "x"], "reference": [KEY, KEY, PERFECT]}
    plain = stream(**texts)
    streams = {"plain": plain, "nothing": b"", "text": b"ARROW1", "half": plain[:200], "truncated": plain[:-40]}
    further = {"group": (["a", "a", "b"], [0.5, 1, 2], ["a", None, "a"]), "task": (["score", None, "score"], [0, 1, 2])}
    for name, values in {**further, "more": ([1, 2, 3],)}.items():
        streams |= {f"{name} {value}": stream(**texts, **{name: value}) for value in values}
    pairs = {"no reference": (["x"], None), "null": ([None, "x"], [KEY, None]), "int": ([1, 2], [1, 2])}
    pairs |= {"no rows": ([], []), "bad references": (["x"] * 4, ["", KEY, "x", ""])}
    for name, (responses, references) in pairs.items():
        columns = {"response": responses, "reference": references}
        streams[name] = stream(**{column: values for column, values in columns.items() if values is not None})
    for kind in (pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int32(), pa.string())):
        streams[str(kind)] = stream(**{name: pa.array(column).cast(kind) for name, column in texts.items()})
    options = query(config={"lexical": {"reward": "rouge_l"}, "order": "lcs"})
    for name, data in streams.items():
        for text in ("", "include=components,advantages", options, "task=score", "task=nope", "config=[]", "x=1"):
            yield Request(f"Arrow {name}?{text}", f"/v1/score?{text}", data, ARROW_HEADERS)


def batches(count: int) -> Iterator[Request]:
    """Yield random batches as JSON and, unless a stream cannot say what is wrong with them, as Arrow."""
    for number in range(count):
        document, breaks = new_batch(number)
        yield Request(f"batch {number}", "/v1/score", document)
        if breaks - {"reference", "task"}:
            continue
        references, responses = document["references"], document["responses"]
        one_each = range(len(responses)) if len(references) > 1 else [0] * len(responses)
        index = document.get("reference_index", one_each)
        columns = {"response": responses, "reference": [references[k] for k in index]}
        columns |= {"group": document["groups"]} if "groups" in document else {}
        parameters = {"config": document["config"], "include": ",".join(document["include"])}
        (parameters if isinstance(document["task"], str) else columns)["task"] = document["task"]
        path = "/v1/score?" + query(**parameters)
        yield Request(f"batch {number}, Arrow", path, stream(**columns), ARROW_HEADERS)


SMALL = ("--max-body-bytes", "3000", "--max-responses", "3", "--max-reference-bytes", "200", "--max-steps", "2")
SERVICES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "default": ((), {}),
    "threads": (("--inline-bytes", "0", "--threads", "1"), {}),
    "small": (SMALL, {"ASSAY_MAX_RESPONSE_BYTES": "400"}),
    "workers": (("--workers", "2", "--order", "lcs", "--total", "sum", "--think-prefilled"), {}),
}
"""Flags and environment of the services."""


def requests_to(name: str, count: int) -> list[Request]:
    """Return all requests to the service with default settings, and some of them to the others."""
    step = {"default": 1, "threads": 8}.get(name, 29)
    return [*list(golden())[:: min(step, 9)], *[*odd_documents(), *wire(), *arrow(), *batches(count)][::step]]


def metrics(client: httpx.Client) -> Record:
    """Return every line of the metrics; values of times, sizes and processes are masked."""
    unsteady = r"(?m)^((?:\w*(?:seconds|bytes|python|process|threads|queue|build)\w*)(?:\{.*\})?) \S+$"
    lines = re.sub(unsteady, r"\1 …", client.get("/metrics").text).split("\n")
    return {"body": sorted(line for line in lines if "not_ready" not in line and "/readyz" not in line)}


def record_requests(count: int) -> Iterator[tuple[str, Record]]:
    """Yield the name of every request and its reply."""
    for name, (flags, environ) in SERVICES.items():
        with running(*flags, **environ) as client:
            for request in requests_to(name, count):
                yield f"{name}: {request.name}", ask(client, request)
            if name != "workers":  # which of the two answers depends on the kernel
                yield f"{name}: metrics", metrics(client)
