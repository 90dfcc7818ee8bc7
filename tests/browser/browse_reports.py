"""The HTML reports in a browser: nothing is loaded, axe finds nothing, small screens and paper; and their pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page

from assay.service.cli.main import main
from tests.browser.conftest import axe_finds

ROOT = Path(__file__).resolve().parents[2]
ROLLOUTS = ROOT / "examples" / "rollouts.jsonl"
DOCS = ROOT / "docs"
MAX_PICTURE_BYTES = 300_000

ARGUMENTS = {
    "rewards": ["score", "rollouts.jsonl", "-o", "scored.jsonl", "--group-field", "prompt", "--html"],
    "evaluation": ["evaluate", "rollouts.jsonl", "--by", "family", "--html"],
    "ablation": ["ablate", "rollouts.jsonl", "--html"],
}
"""What makes each report, up to its name; a record has a family so that there are groups."""


@pytest.fixture
def report(tmp_path, monkeypatch, contexts):
    """`(name, **options of the profile)` to an open page with that report on the example rollouts."""

    def report(name: str, **options: object) -> Page:
        monkeypatch.chdir(tmp_path)
        lines = ROLLOUTS.read_text(encoding="utf-8").splitlines()
        rows = [f'{{"family": "{"odd" if k % 2 else "even"}", {line[1:]}' for k, line in enumerate(lines)]
        Path("rollouts.jsonl").write_text("\n".join(rows if name == "evaluation" else lines), encoding="utf-8")
        done = CliRunner().invoke(main, [*ARGUMENTS[name], "report.html"], prog_name="assay")
        assert done.exit_code == 0, done.output
        page = contexts(**options).new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        assert asked == [(tmp_path / "report.html").as_uri()]
        return page

    return report


@pytest.mark.parametrize("name", ARGUMENTS)
def test_axe_finds_nothing_and_nothing_sticks_out_of_a_small_screen(report, name):
    for scheme in ("light", "dark"):
        page = report(name, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert axe_finds(page) == [], scheme
    for width in (320, 390, 1024):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["rewards", "evaluation"])
def test_pictures_for_the_documents(report, name):
    page = report(name, viewport={"width": 1200, "height": 1000}, color_scheme="light")
    path = DOCS / f"report-{name}.png"
    page.screenshot(path=path)
    assert path.stat().st_size < MAX_PICTURE_BYTES
