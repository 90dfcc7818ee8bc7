"""The editors: line numbers, highlights, links between a step and its texts, moved steps, and undo."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.texts import REFERENCE, RESPONSE

MARKED = """
(field, kind) => [...field.parentElement.querySelectorAll(`.paint .at-${kind}`)].map((mark) => mark.textContent)
"""


@pytest.fixture
def digest(playground):
    playground.write(response=RESPONSE, reference=REFERENCE)
    return playground


def line_of(playground, field: str, number: int):
    return playground.page.locator(f".sheet:has(#{field}) .paint > div").nth(number - 1)


def moved(first: int, second: int) -> str:
    """The response with the texts of two steps exchanged, numbers in order."""
    lines = RESPONSE.split("\n")
    for start in (4, 10):
        upper, other = (lines[start + step - 1].split(": ", 1) for step in (first, second))
        upper[1], other[1] = other[1], upper[1]
        lines[start + first - 1], lines[start + second - 1] = ": ".join(upper), ": ".join(other)
    return "\n".join(lines)


def test_words_and_json_errors_are_marked_in_place(digest):
    assert digest.response.evaluate(MARKED, "tag") == [
        *("<think>", "</think>", "<key>", "</key>", "<orc>", "</orc>", "<note>", "</note>")
    ]
    shared = digest.response.evaluate(MARKED, "shared")
    assert {"plasmid", "DNA", "CutSmart", "EcoRI", "units", "37"} - set(shared) in (set(), {"EcoRI", "units"})
    assert digest.response.evaluate(MARKED, "extra") + digest.reference.evaluate(MARKED, "missing")
    assert digest.response.evaluate(MARKED, "uncovered") == []
    digest.write(response=RESPONSE.replace("Load 20 µl on an agarose gel", "Load it on a gel"))
    assert digest.response.evaluate(MARKED, "uncovered") == ["agarose", "20", "µl"]
    assert digest.shown_reason == "low_coverage"

    digest.write(response=RESPONSE.replace('["10 units"]', '["10 units"'))
    expect(line_of(digest, "response", 7)).to_have_class("bad-line")
    fault = line_of(digest, "response", 7).locator(".at-fault")
    assert line_of(digest, "response", 7).inner_text().endswith(fault.inner_text())
    digest.write(response=RESPONSE)
    expect(digest.page.locator(".bad-line")).to_have_count(0)


def test_very_long_texts_use_the_plain_field(digest):
    digest.write(response=RESPONSE + "\n" + "x " * 100_000)
    expect(digest.page.locator(".editor.plain #response")).to_be_visible()
    digest.write(response=RESPONSE)
    expect(digest.page.locator(".editor.plain")).to_have_count(0)
    assert len(digest.response.evaluate(MARKED, "tag")) == 8


def test_a_step_marks_its_texts_and_its_partner_and_leads_to_its_line(digest):
    digest.page.locator('.step[data-kind="key"][data-step="4"]').hover()
    linked = digest.page.locator(".linked")
    expect(linked).to_have_count(5)
    for field, number in (("response", 8), ("response", 14), ("reference", 4)):
        expect(line_of(digest, field, number)).to_have_class("linked")
    expect(digest.page.locator('.step.linked[data-kind="reference"]')).to_have_attribute("data-step", "4")
    digest.page.locator("h1").hover()
    expect(linked).to_have_count(0)
    line_of(digest, "reference", 4).hover(force=True)
    expect(digest.page.locator('.step.linked[data-kind="key"]')).to_have_attribute("data-step", "4")
    selected = "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    digest.page.get_by_role("button", name="Predicted 4", exact=True).click()
    assert digest.response.evaluate(selected) == RESPONSE.split("\n")[7]
    digest.page.get_by_role("button", name="Reference 2", exact=True).click()
    assert digest.reference.evaluate(selected) == REFERENCE.split("\n")[1]


def test_buttons_move_a_step_and_keep_the_focus(digest):
    before = digest.shown_reward
    up = digest.page.get_by_role("button", name="Move step 3 up")
    up.focus()
    digest.page.keyboard.press("Enter")
    digest.settled()
    assert digest.response.input_value() == moved(2, 3)
    assert digest.shown_reward > before
    expect(digest.page.get_by_role("button", name="Move step 2 up")).to_be_focused()
    digest.page.keyboard.press("Control+z")
    digest.settled()
    assert digest.response.input_value() == RESPONSE


@pytest.mark.parametrize("let_go", [True, False])
def test_a_step_is_dragged(digest, let_go):
    mouse = digest.page.mouse
    handle = digest.page.locator('.step[data-step="3"] .handle')
    handle.scroll_into_view_if_needed()
    start = handle.bounding_box()
    target = digest.page.locator('.step[data-kind="key"][data-step="2"]').bounding_box()
    x = start["x"] + 5
    mouse.move(x, start["y"] + 5)
    mouse.down()
    mouse.move(x, start["y"] - 20)
    mouse.move(x, target["y"] + 5, steps=5)
    expect(digest.page.locator(".drop-before")).to_have_attribute("data-step", "2")
    if not let_go:
        digest.page.keyboard.press("Escape")
    mouse.up()
    digest.page.wait_for_timeout(200)
    digest.settled()
    assert digest.response.input_value() == (moved(2, 3) if let_go else RESPONSE)
    expect(digest.page.locator(".drop-before, .dragged")).to_have_count(0)


def test_what_is_applied_is_undone_in_the_field_and_outside(digest):
    before = digest.shown_reward
    for place in ("response", None):
        digest.page.locator(".suggestion button").first.click()
        digest.settled()
        assert digest.shown_reward > before
        if place:
            digest.response.focus()
        digest.page.keyboard.press("Control+z")
        digest.page.wait_for_timeout(200)
        digest.settled()
        assert digest.response.input_value() == RESPONSE
        assert digest.shown_reward == before
    digest.example("A good answer")
    digest.response.focus()
    for _ in ("reference", "response"):
        digest.page.keyboard.press("Control+z")
    assert [digest.response.input_value(), digest.reference.input_value()] == [RESPONSE, REFERENCE]


def test_plain_prose_gets_the_skeleton(digest):
    button = digest.page.get_by_role("button", name="Insert skeleton")
    expect(button).to_be_hidden()
    prose = "Mix 1 µg of plasmid DNA with buffer.\nAdd 0.5 µl of EcoRI.\n3. Incubate at 37 °C for 1 h.\n"
    digest.write(response=prose)
    assert digest.shown_reason == "missing_sections"
    button.click()
    digest.settled()
    assert digest.shown_reason == "ok"
    expect(button).to_be_hidden()
    assert digest.page.locator('.step[data-kind="key"] strong').all_inner_texts() == ["mix", "add", "incubate"]
    assert ": Add 0.5 µl of EcoRI." in digest.response.input_value()
    digest.response.focus()
    digest.page.keyboard.press("Control+z")
    assert digest.response.input_value() == prose
