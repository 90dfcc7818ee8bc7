"""The playground as its users see it: its fields, its buttons, and its results."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

SETTLED = "() => document.getElementById('result').dataset.current === 'yes'"
PUT = "(field, text) => { field.setRangeText(text, 0, field.value.length); field.dispatchEvent(new Event('input')); }"
"""Sets a field as a paste does; Playwright's `fill` takes minutes for thousands of lines."""


class Playground:
    """One open page."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url

    def open(self) -> None:
        self.page.goto(self.url)

    def settled(self) -> None:
        """Wait until the result is that of the current fields."""
        self.page.wait_for_function(SETTLED)

    def __getattr__(self, name: str) -> Locator:
        """Return an element by its id, with - for _."""
        return self.page.locator(f"#{name.replace('_', '-')}")

    @property
    def shown_reward(self) -> float:
        return number(self.reward.inner_text())

    @property
    def shown_reason(self) -> str:
        return reason_in(self.reason.inner_text())

    def write(self, response: str | None = None, reference: str | None = None) -> None:
        """Put texts into the fields at once, and wait for the result."""
        for field, text in ((self.response, response), (self.reference, reference)):
            if text is not None:
                field.evaluate(PUT, text)
        self.settled()

    def example(self, title: str) -> None:
        self.page.get_by_label("Example").select_option(label=title)
        self.settled()

    def see(self, view: str) -> None:
        """Switch to `One response` or `Compare a group`."""
        self.page.get_by_label(view, exact=True).check()
        self.settled()

    def open_settings(self) -> None:
        self.page.locator("#settings > summary").click()

    def examples(self) -> list[dict[str, Any]]:
        """The examples with their texts, from the page's own module."""
        return self.page.evaluate("async () => (await import('./playground/examples.js')).EXAMPLES")

    def text_to_copy(self, title: str) -> str:
        """One of the texts under “Reproduce it”."""
        box = self.page.locator("details.reproduce:visible")
        if box.get_attribute("open") is None:
            box.locator("summary").click()
        box.get_by_label(title, exact=True).check()
        expect(box.locator("pre")).not_to_be_empty()
        return box.locator("pre").inner_text()

    def table(self) -> list[list[str]]:
        """The rows of the group's table, as text."""
        rows = self.page.locator("table.group tbody tr").all()
        return [[cell.inner_text().strip() for cell in row.locator("th, td").all()] for row in rows]


def reason_in(label: str) -> str:
    """The reason in a label as the page writes it; for `ok`, what cost most follows it."""
    return label.strip().partition(":")[0].replace(" ", "_")


def number(text: str) -> float:
    """A figure as the page writes it."""
    match = re.search(r"[+±−]?\d+(?:\.\d+)?", text)
    assert match, text
    return float(match[0].replace("−", "-").replace("±", "").replace("+", ""))
