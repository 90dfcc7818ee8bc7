"""Fixtures: one headless Chromium, and pages that fail their test when they complain."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.playground import Playground
from tests.servers import LiveServer, ready

FLAGS = [f"--disable-{name}" for name in ("gpu", "quic", "background-networking", "component-update", "sync")]
FLAGS += ["--no-sandbox", "--no-first-run"]
PATIENCE = 15_000
"""Milliseconds that anything on a page may take before its test fails."""
KEY = "a-key-of-the-test"

expect.set_options(timeout=PATIENCE)


def axe_finds(page: Page) -> list[str]:
    """Return what axe has to say against the accessibility of a page."""
    violations = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['target']}" for rule in violations for node in rule["nodes"]]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start a separate Chromium with a fresh profile, which connects to our servers alone."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["BROWSER_PATH"], args=FLAGS)
        yield browser
        browser.close()


class Complaints:
    """What pages write to their console and throw; patterns of what a test provokes can be allowed."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.allowed: list[str] = []

    def watch(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.found.append(f"uncaught: {error}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text}")

    def allow(self, pattern: str) -> None:
        self.allowed.append(pattern)

    @property
    def left(self) -> list[str]:
        return [text for text in self.found if not any(re.search(pattern, text) for pattern in self.allowed)]


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Every test ends with a look at what its pages complained of."""
    complaints = Complaints()
    yield complaints
    assert complaints.left == []


@pytest.fixture
def contexts(browser: Browser, complaints: Complaints) -> Iterator[Callable[..., BrowserContext]]:
    """Make new profiles, and close them at the end."""
    made: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        options = {"viewport": {"width": 1360, "height": 900}, "reduced_motion": "reduce", **options}
        context = browser.new_context(**options)
        context.set_default_timeout(PATIENCE)
        context.on("page", complaints.watch)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()


@pytest.fixture(scope="session")
def guarded() -> Iterator[LiveServer]:
    """Start a service that asks for a key."""
    with ready(environ={"ASSAY_API_KEYS": KEY}) as server:
        yield server


@pytest.fixture
def open_page(contexts: Callable[..., BrowserContext], server: LiveServer) -> Callable[..., Playground]:
    """`(address, **options of the profile)` to a page that shows its first result."""

    def open_page(address: str | None = None, *, settled: bool = True, **options: Any) -> Playground:
        playground = Playground(contexts(**options).new_page(), address or server.url)
        playground.open()
        if settled:
            playground.settled()
        return playground

    return open_page


@pytest.fixture
def playground(open_page: Callable[..., Playground]) -> Playground:
    """Open a page with its first result."""
    return open_page()
