"""The documentation site builds strictly: links, anchors, diagrams, Python names. Nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from assay.service.http.app import create_app

pytestmark = pytest.mark.slow  # make docs is the other test


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//"
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [path.name for path in pages if loads.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(("page", "word"), [("architecture", "intake"), ("trainers/index", "Policy")])
def test_diagrams_are_drawn(site: Path, page: str, word: str) -> None:
    """Their words are text of the page, which can be searched and read aloud."""
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    drawn = re.findall(r'<div class="diagram"><svg.*?</svg>', text, re.DOTALL)
    assert [word in re.sub(r"<style>.*?</style>|<[^>]+>", " ", one) for one in drawn] == [True]


def test_the_description_of_the_service_is_that_of_the_code(site: Path) -> None:
    document = json.loads((site / "openapi.json").read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(create_app().openapi()))
    page = (site / "openapi.html").read_text(encoding="utf-8")
    for name in ("swagger-ui-bundle.js", "openapi.js"):
        assert f'<script src="{name}">' in page
        assert (site / name).stat().st_size > 10_000


def test_public_names_are_described(site: Path) -> None:
    page = (site / "python.html").read_text(encoding="utf-8")
    described = set(re.findall(r'<h\d id="?(assay[\w.]+)', page))
    classes = {"Issue", "NotInstalled", "InvalidReference", "InvalidRequest", "InvalidSetting", "Scorer", "Scores"}
    assert {f"assay.{name}" for name in {*classes, "evaluate", "explain", "Scorer.score"}} <= described
    assert {"assay_client.Client.score", "assay_client.AsyncClient.score_one"} <= described


def test_links_to_files_outside_docs_lead_somewhere(site: Path) -> None:
    """To their page on the site; or they are plain text if the repository's address is unknown."""
    index = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="security.html"' in index
    assert "SECURITY.md" not in index
