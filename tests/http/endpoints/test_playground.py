"""The playground without a browser: content negotiation, size, caching, and no external resources."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from assay.service.http.endpoints.docs import FOLDER, Playground, prefers_html, quality_values
from tests.http.samples import problem_of
from tests.servers import serving

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
HTML = {"accept": BROWSER}
MAX_BYTES = 200_000
FILES = sorted(Playground(b"{}").files)
every_file = pytest.mark.parametrize("address", ["/", "/docs/swagger-ui.css", *FILES])
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def test_browsers_get_the_page(client):
    for accept in (BROWSER, "text/html, */*", "Text/HTML;q=0.5, application/json;q=0.4"):
        reply = client.get("/", headers={"accept": accept})
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert "<title>Assay playground</title>" in reply.text


def test_other_clients_get_the_index(client):
    with httpx.Client(base_url=client.base_url, trust_env=False) as bare:
        del bare.headers["accept"]
        for accept in (
            *(None, "*/*", "application/json, text/html", "text/html;q=many", ",;q=1,"),
            *("text/html;q=0.9, application/json", "text/html;q=0, */*;q=0.1", "text/*, application/json;q=0.1"),
            "application/*;q=0.9, text/html;q=0.8",
        ):
            reply = bare.get("/", headers={} if accept is None else {"accept": accept})
            assert reply.headers["content-type"] == "application/json", accept
            assert reply.json()["name"] == "assay"
            assert "accept" in reply.headers["vary"]


def test_every_file_is_served(client):
    assert {Path(address).name for address in FILES} | {"index.html"} == {path.name for path in FOLDER.iterdir()}
    size = len(client.get("/", headers=HTML).content)
    for address in FILES:
        reply = client.get(address)
        assert reply.content == (FOLDER / Path(address).name).read_bytes()
        assert reply.headers["content-type"].startswith(TYPES[Path(address).suffix])
        size += len(reply.content)
    assert size < MAX_BYTES


@pytest.mark.attack
@pytest.mark.parametrize("address", ["/", *FILES])
def test_nothing_else_may_run_or_be_loaded(client, address):
    reply = client.get(address, headers=HTML)
    policy = dict(part.split(maxsplit=1) for part in reply.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'", address
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert reply.headers["x-content-type-options"] == "nosniff"


@every_file
def test_a_cached_file_is_not_modified(client, address):
    first = client.get(address, headers=HTML)
    assert first.headers["cache-control"] == "no-cache"
    for tag in (first.headers["etag"], f'W/"other", {first.headers["etag"]}'):
        again = client.get(address, headers=HTML | {"if-none-match": tag})
        assert (again.status_code, again.content) == (304, b""), address
        assert not {"content-length", "server-timing"} & again.headers.keys()
        assert again.headers["etag"] == first.headers["etag"]
        assert "x-request-id" in again.headers
    assert client.get(address, headers=HTML | {"if-none-match": '"other"'}).status_code == 200


@every_file
def test_compressed_only_if_the_client_accepts_gzip(client, address):
    plain = client.get(address, headers=HTML | {"accept-encoding": "identity, gzip;q=0"})
    assert "content-encoding" not in plain.headers
    with client.stream("GET", address, headers=HTML | {"accept-encoding": "br, gzip"}) as reply:
        packed = b"".join(reply.iter_raw())
    assert reply.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in reply.headers["vary"]
    assert gzip.decompress(packed) == plain.content


@pytest.mark.attack
def test_the_files_have_no_external_addresses_and_no_markup_of_texts():
    """No URL with a host except SVG's namespace and links that a reader may follow; no inline script or style."""
    names = {path.name for path in FOLDER.iterdir()}
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        if path.suffix == ".html":
            text = re.sub(r'<a href="https://[^"]+" rel="noreferrer">', "<a>", text)
            assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]* src=)", text)
            assert set(re.findall(r'(?:src|href)="playground/([^"]+)"', text)) <= names
        assert not re.search(r"(?:https?:|wss?:|[\"'(])//\w", text), path.name
        assert not re.search(r"@import|\burl\(", text)
        if path.suffix == ".js":
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
            assert not re.search("localStorage|sessionStorage", text)
            assert set(re.findall(r'from "\./([^"]+)"', text)) <= names


def test_playground_and_docs_can_be_disabled():
    with serving(docs=False, playground=False) as client:
        reply = client.get("/", headers=HTML)
        assert reply.json()["name"] == "assay"
        assert "vary" not in reply.headers
        assert not {"docs", "openapi"} & reply.json()["links"].keys()
        for address in (*FILES, "/docs", "/docs/openapi.json", "/docs/swagger-ui.css", "/openapi.json"):
            problem_of(client.get(address), 404)


def test_preferences():
    qualities = quality_values(b"gzip;q=0.5, BR , x;level=1;q=2, y;q=nan, z; q=0, w;q=-1")
    assert qualities == {b"gzip": 0.5, b"br": 1.0, b"x": 1.0, b"y": 0.0, b"z": 0.0, b"w": 0.0}
    assert not prefers_html(b"application/*;q=0.9, text/html;q=0.8")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_ok_says_what_cost_most() -> None:
    """`ok` beside a low reward says nothing; docs of `POST /v1/explain`: `outcome`."""
    components = {"order": [0.5, 1, 0, 1, 0], "content": [1.2, 1.5, 1.5, 1.4, 1], "scale": [0.9, 1, 0.8, 0.2, 1]}
    components["quantity_errors"] = [0, 0, 0, 0, 2]
    code = (
        f"const {{ outcomeOf }} = await import({json.dumps((FOLDER / 'dom.js').as_uri())});"
        f"const say = (reason, k, config) => outcomeOf(reason, {json.dumps(components)}, k, config);"
        'const said = [say("ok", 0), say("ok", 1), say("ok", 2, { use_order: false }), say("ok", 3), say("x", 0)];'
        'said.push(say("ok", 4));'
        'console.log(said.join("|"))'
    )
    options = {"capture_output": True, "text": True, "check": True, "timeout": 60}
    done = subprocess.run(["node", "--input-type=module", "-e", code], **options)
    assert done.stdout.strip() == "ok: order 0.50|ok|ok: scale 0.80|ok: scale 0.20|x|ok: 2 wrong quantities"
