"""The playground without a browser: content negotiation, size, caching, and no external resources."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from assay.service.http.endpoints.docs import FOLDER, Playground, prefers_html, quality_values
from tests.http.samples import problem_of
from tests.servers import ROOT, launched

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
MAX_BYTES = 200_000
FILES = sorted(Playground(b"{}").files)


@pytest.fixture(scope="module")
def page(client):
    return client.get("/", headers={"accept": BROWSER})


def test_browsers_get_the_page(client):
    for accept in (BROWSER, "text/html", "text/html, */*", "Text/HTML;q=0.5, application/json;q=0.4"):
        reply = client.get("/", headers={"accept": accept})
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert "<title>Assay playground</title>" in reply.text


def test_other_clients_get_the_index(client):
    with httpx.Client(base_url=client.base_url, trust_env=False) as bare:
        del bare.headers["accept"]
        for accept in (
            None,
            "",
            "*/*",
            "application/json",
            "application/json, text/html",
            "text/html;q=0.9, application/json",
            "text/html;q=0, */*;q=0.1",
            "text/html;q=many",
            "text/*, application/json;q=0.1",
            ",;q=1,",
        ):
            reply = bare.get("/", headers={} if accept is None else {"accept": accept})
            assert reply.headers["content-type"] == "application/json", accept
            assert reply.json()["name"] == "assay"
            assert "accept" in reply.headers["vary"]


def test_preferences():
    assert quality_values(b"gzip;q=0.5, BR , x;level=1;q=2, y;q=nan, z; q=0") == {
        **{b"gzip": 0.5, b"br": 1.0, b"x": 1.0},
        **{b"y": 0.0, b"z": 0.0},
    }
    assert not prefers_html(b"application/*;q=0.9, text/html;q=0.8")


def test_the_page_is_under_200_kb_before_compression(client, page):
    sizes = [len(page.content)] + [len(client.get(address).content) for address in FILES]
    assert sum(sizes) < MAX_BYTES


def test_every_file_is_served(client):
    assert {Path(address).name for address in FILES} | {"index.html"} == {path.name for path in FOLDER.iterdir()}
    for address in FILES:
        reply = client.get(address)
        assert reply.content == (FOLDER / Path(address).name).read_bytes()
        kind = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[Path(address).suffix]
        assert reply.headers["content-type"].startswith(kind)


@pytest.mark.attack
def test_nothing_else_may_run_or_be_loaded(client):
    for address in ("/", *FILES):
        reply = client.get(address, headers={"accept": BROWSER})
        policy = dict(part.split(maxsplit=1) for part in reply.headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'", address
        assert {policy[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
        assert policy["require-trusted-types-for"] == "'script'"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_cached_file_is_not_modified(client):
    for address in ("/", "/docs/swagger-ui.css", *FILES):
        first = client.get(address, headers={"accept": BROWSER})
        assert first.headers["cache-control"] == "no-cache"
        for tag in (first.headers["etag"], f'W/"other", {first.headers["etag"]}'):
            again = client.get(address, headers={"accept": BROWSER, "if-none-match": tag})
            assert (again.status_code, again.content) == (304, b""), address
            assert "content-length" not in again.headers
            assert again.headers["etag"] == first.headers["etag"]
            assert "x-request-id" in again.headers
        assert client.get(address, headers={"accept": BROWSER, "if-none-match": '"other"'}).status_code == 200


def test_compressed_only_if_the_client_accepts_gzip(client):
    for address in ("/", *FILES):
        headers = {"accept": BROWSER, "accept-encoding": "identity, gzip;q=0"}
        plain = client.get(address, headers=headers)
        assert "content-encoding" not in plain.headers
        with client.stream("GET", address, headers=headers | {"accept-encoding": "br, gzip"}) as reply:
            packed = b"".join(reply.iter_raw())
        assert reply.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in reply.headers["vary"]
        assert gzip.decompress(packed) == plain.content


@pytest.mark.attack
def test_the_files_have_no_external_addresses():
    """No URL with a host except SVG's namespace and links that a reader may follow; no inline script or style."""
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        if path.suffix == ".html":
            text = re.sub(r'<a href="https://[^"]+" rel="noreferrer">', "<a>", text)
        assert not re.search(r"(?:https?:|wss?:|[\"'(])//\w", text), path.name
        assert "@import" not in text
        assert not re.search(r"\burl\(", text)
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script(?![^>]* src=)", html)


@pytest.mark.attack
def test_text_is_never_markup():
    for path in FOLDER.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
        assert "localStorage" not in text
        assert "sessionStorage" not in text


def test_every_referenced_file_exists():
    names = {path.name for path in FOLDER.iterdir()}
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert set(re.findall(r'(?:src|href)="playground/([^"]+)"', html)) <= names
    for path in FOLDER.glob("*.js"):
        assert set(re.findall(r'from "\./([^"]+)"', path.read_text(encoding="utf-8"))) <= names


def test_playground_and_docs_can_be_disabled():
    flags = ("--no-docs", "--drain-seconds", "0")
    with launched(*flags, environ={"ASSAY_PLAYGROUND": "false"}) as server, server.client() as client:
        reply = client.get("/", headers={"accept": BROWSER})
        assert reply.json()["name"] == "assay"
        assert "vary" not in reply.headers
        assert not {"docs", "openapi"} & reply.json()["links"].keys()
        for address in (*FILES, "/docs", "/docs/openapi.json", "/docs/swagger-ui.css", "/openapi.json"):
            problem_of(client.get(address), 404)


def test_browser_tests_are_skipped_without_a_browser(tmp_path):
    command = [sys.executable, "-m", "tests.browser.run"]
    shown = subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert "NO BROWSER: PLAYGROUND AND REPORTS NOT TESTED" in shown.stdout
