"""What everybody needs of a page: light weight, speed, contrast, keyboard, small screens; and the pictures of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import axe_finds
from tests.browser.texts import REFERENCE, RESPONSE

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAX_PICTURE_BYTES = 300_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, scheme, complaints):
    complaints.allow("status of 422")
    playground = open_page(color_scheme=scheme)
    playground.open_settings()
    playground.text_to_copy("JSON reply")
    playground.page.locator("summary", has_text="The arithmetic").click()
    playground.page.locator("summary", has_text="How the reward works").click()
    playground.page.locator(".matrix > summary").click()
    playground.page.locator(".checks > summary").click()
    for title in ("Two steps swapped", "Other steps, other words", "The prose forgets a word", "Broken JSON in a step"):
        playground.example(title)
        assert axe_finds(playground.page) == [], title
    playground.page.locator("#access > summary").click()
    playground.see("Compare a group")
    playground.page.locator("#rollouts summary").first.click()
    playground.page.locator("summary", has_text="paste many at once").click()
    rows = [{"id": f"rollout-{k}", "prompt": f"Prompt {k // 2}", "response": RESPONSE} for k in range(4)]
    content = "\n".join(json.dumps({**row, "reference": REFERENCE}) for row in rows).encode()
    playground.rollouts_file.set_input_files({"name": "step-12.jsonl", "mimeType": "", "buffer": content})
    playground.text_to_copy("JSON reply")
    assert axe_finds(playground.page) == []
    playground.reference.fill("Step 1: nothing")
    expect(playground.reference_fault).to_be_visible()
    assert axe_finds(playground.page) == []


def test_nothing_sticks_out_of_a_small_screen(open_page):
    playground = open_page()
    playground.open_settings()
    for view in ("One response", "Compare a group"):
        playground.see(view)
        for width in (320, 390, 768, 1024):
            playground.page.set_viewport_size({"width": width, "height": 800})
            assert playground.page.evaluate("document.documentElement.scrollWidth") <= width, (view, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 720), (1440, 900), (1000, 700), (768, 1024), (375, 812)])
def test_the_summary_covers_no_link_and_settings_are_in_view(open_page, scheme, size):
    width, height = size
    playground = open_page(color_scheme=scheme, viewport={"width": width, "height": height})
    expect(playground.settings_open).to_be_in_viewport(ratio=1)
    for view in ("One response", "Compare a group"):
        playground.see(view)
        playground.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        if view == "One response":  # the page of a group may be short enough to show its result to the end
            expect(playground.glance).to_be_visible()
        links = playground.links.locator("a")
        expect(links.last).to_be_in_viewport(ratio=1)
        if playground.glance.is_visible():
            button = playground.glance.bounding_box()
            assert [link.inner_text() for link in links.all() if overlap(link.bounding_box(), button)] == []


def overlap(first, second):
    """Return whether two boxes of the page have an area in common."""
    return all(
        first[start] < second[start] + second[length] and second[start] < first[start] + first[length]
        for start, length in (("x", "width"), ("y", "height"))
    )


@pytest.mark.parametrize("size", [(1280, 720), (375, 812)])
def test_the_button_of_the_header_opens_the_settings(open_page, size):
    width, height = size
    playground = open_page(viewport={"width": width, "height": height})
    playground.settings_open.press("Enter")
    expect(playground.page.locator("#settings > summary")).to_be_focused()
    expect(playground.page.locator("#settings > summary")).to_be_in_viewport(ratio=1)
    expect(playground.page.get_by_label("order", exact=True)).to_be_in_viewport(ratio=1)
    playground.page.get_by_label("order", exact=True).select_option("lcs")
    expect(playground.settings_open).to_have_text("Settings (1)")


def test_the_keyboard_reaches_the_result_and_the_group(playground):
    playground.page.keyboard.press("Tab")
    expect(playground.skip).to_be_focused()
    expect(playground.skip).to_be_in_viewport()
    playground.page.keyboard.press("Enter")
    expect(playground.result).to_be_focused()
    playground.page.get_by_label("One response").focus()
    playground.page.keyboard.press("ArrowRight")
    playground.settled()
    expect(playground.result_group).to_be_visible()
    expect(playground.page.get_by_label("Compare a group", exact=True)).to_be_focused()


def test_the_theme_is_the_chosen_one(open_page):
    page = open_page(color_scheme="light").page
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(paper)
    button = page.get_by_role("button", name="Theme")
    button.click()
    assert page.evaluate(paper) == light
    button.click()
    expect(button).to_have_text("Theme: dark")
    assert page.evaluate(paper) != light


@pytest.mark.parametrize(
    ("name", "scheme", "size"),
    [
        ("light", "light", (1360, 900)),
        ("dark", "dark", (1360, 900)),
        ("group", "light", (1360, 900)),
        ("phone", "light", (390, 844)),
    ],
)
def test_pictures_for_the_documents(open_page, name, scheme, size):
    width, height = size
    playground = open_page(color_scheme=scheme, viewport={"width": width, "height": height})
    if name == "phone":
        playground.result.scroll_into_view_if_needed()
        playground.page.evaluate("document.getElementById('result').scrollIntoView()")
    if name == "group":
        playground.see("Compare a group")
    path = DOCS / f"playground-{name}.png"
    playground.page.evaluate("document.getElementById('connection-text').textContent = 'Ready'")
    playground.page.screenshot(path=path, caret="initial")
    assert path.stat().st_size < MAX_PICTURE_BYTES
