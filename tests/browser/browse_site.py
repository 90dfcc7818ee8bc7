"""The documentation site in a browser, opened as files: search, small screens, and contrast in light and dark."""

from __future__ import annotations

import pytest

from tests.browser.conftest import axe_finds

PHONE = 375
LOOKED_AT = ["index", "trainers/index", "trainers/verl", "http", "python", "rules"]
"""Pages with every kind of content: tables, code of several languages, diagrams, notes, signatures."""


def test_no_page_scrolls_sideways_on_a_phone(contexts, site):
    """Wide tables and code scroll by themselves."""
    page = contexts(viewport={"width": PHONE, "height": 800}, has_touch=True, is_mobile=True).new_page()
    wide = []
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":
            continue  # for a server: it loads styles from the root
        page.goto(path.as_uri())
        width = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth)")
        if width > PHONE:
            wide.append(f"{path.relative_to(site)}: {width} px")
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(contexts, site, scheme):
    """Violations of WCAG AA; browsers themselves make boxes that scroll focusable."""
    options = {
        "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
        "rules": {"scrollable-region-focusable": {"enabled": False}},
        "preload": False,  # axe would request styles, which pages opened as files may not
    }
    page = contexts(color_scheme=scheme).new_page()
    for name in LOOKED_AT:
        page.goto((site / f"{name}.html").as_uri())
        assert axe_finds(page, **options) == [], name
