"""The documentation site builds strictly: links, anchors, diagrams. Nothing is loaded from elsewhere."""

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
    assert '<div class="diagram"><svg' in (site / "architecture.html").read_text(encoding="utf-8")
    assert [path.name for path in pages if loads.search(path.read_text(encoding="utf-8"))] == []


def test_the_description_of_the_service_is_that_of_the_code(site: Path) -> None:
    document = json.loads((site / "openapi.json").read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(create_app().openapi()))
    page = (site / "openapi.html").read_text(encoding="utf-8")
    assert '<script src="swagger-ui-bundle.js">' in page
    assert (site / "swagger-ui-bundle.js").is_file()
