"""The documentation site: everything that scrolls sideways can be scrolled with the keyboard, and has a name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.browser.conftest import axe_finds
from tests.own_process import environment

pytest.importorskip("mkdocs", reason="MkDocs is not installed (make docs installs it)")

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = ("aria-dialog-name: ", "empty-table-header: ", "landmark-unique: ")
"""What axe has to say against the frame that Material draws around a page, and against Markdown's tables."""

WIDE = """() => [...document.querySelectorAll("article *")].filter((element) =>
  /auto|scroll/.test(getComputedStyle(element).overflowX) && element.scrollWidth > element.clientWidth)"""
UNREACHABLE = f"""() => ({WIDE})().filter((element) =>
  element.tabIndex !== 0 || element.role !== "group" || !element.ariaLabel).map((element) => element.outerHTML)"""


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build and serve the site, and return its address."""
    folder = str(tmp_path_factory.mktemp("site"))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    subprocess.run(command, cwd=ROOT, env={**environment(), "NO_MKDOCS_2_WARNING": "1"}, check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "touch"), [(1280, False), (768, True), (375, True)])
def test_the_keyboard_reaches_everything_that_scrolls(contexts, site, scheme, width, touch):
    page = contexts(viewport={"width": width, "height": 720}, color_scheme=scheme, has_touch=touch).new_page()
    for name in ("architecture", "http", "size"):
        page.goto(f"{site}/{name}.html")
        page.wait_for_function(f"() => ({WIDE})().length === document.querySelectorAll('article [role=group]').length")
        assert page.evaluate(UNREACHABLE) == [], name
        assert [line for line in axe_finds(page) if not line.startswith(NOT_OURS)] == [], name


def test_arrow_keys_scroll_and_only_what_scrolls_is_a_stop(contexts, site):
    page = contexts(viewport={"width": 375, "height": 720}).new_page()
    page.goto(f"{site}/http.html")
    block = page.get_by_role("group", name="Code, scrolls sideways").first
    block.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")
    stops = page.locator("article [role=group]").count()
    page.set_viewport_size({"width": 1280, "height": 720})
    page.wait_for_function("(stops) => document.querySelectorAll('article [role=group]').length < stops", arg=stops)
