"""One response: typing, examples, settings, suggestions, and what the page says of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.playground import number

BROKEN = '<think>a</think><key>\nStep 1: {"action": "add"\n</key><orc>Step 1: Add.</orc><note>b</note>'
MARKUP = '<img src="nowhere" onerror="document.title = 1"><script>document.title = 2</script>'


def reward_of(client, playground, **config: Any) -> tuple[float, str]:
    """Return what the service says of the response on the page."""
    texts = {"responses": [playground.response.input_value()], "references": [playground.reference.input_value()]}
    reply = client.post("/v1/score", json={**texts, "config": config}).json()
    return reply["rewards"][0], reply["reasons"][0]


def test_every_example_has_the_reason_that_it_stands_for(playground, client):
    examples = playground.examples()
    assert len({example["reason"] for example in examples}) >= 6
    for example in examples:
        playground.example(example["title"])
        assert playground.shown_reason == example["reason"]
        reward, reason = reward_of(client, playground, **example.get("config", {}))
        assert reason == example["reason"]
        assert playground.shown_reward == pytest.approx(reward, abs=5e-5)


def test_settings_change_the_reward(playground, client):
    playground.example("Two steps swapped")
    before = playground.shown_reward
    playground.open_settings()
    playground.page.get_by_label("order", exact=True).select_option("lcs")
    playground.settled()
    assert playground.shown_reward > before
    playground.page.get_by_label("reward_scale", exact=True).select_option("shift")
    playground.page.get_by_label("use_position", exact=True).uncheck()
    playground.page.get_by_label("position_decay", exact=True).fill("2.5")
    playground.settled()
    config = {"order": "lcs", "reward_scale": "shift", "use_position": False, "position_decay": 2.5}
    assert playground.shown_reward == pytest.approx(reward_of(client, playground, **config)[0], abs=5e-5)
    assert playground.settings_count.inner_text() == "4 changed"
    playground.settings_reset.click()
    playground.settled()
    assert playground.shown_reward == before
    assert playground.settings_count.inner_text() == ""


def test_every_setting_has_a_control(playground, client):
    schema = client.get("/v1/config").json()
    playground.open_settings()
    for name, value in schema["config"].items():
        control = playground.page.get_by_label(name, exact=True)
        if isinstance(value, bool):
            assert control.is_checked() == value
        elif isinstance(value, str):
            assert control.input_value() == value
            assert control.locator("option").all_inner_texts() == schema["schema"]["properties"][name]["enum"]
        elif value is None:
            assert (control.input_value(), control.get_attribute("placeholder")) == ("", "none")
        else:
            assert float(control.input_value()) == value


def test_a_setting_that_may_be_none(playground):
    playground.example("The prose adds numbers")
    playground.open_settings()
    field = playground.page.get_by_label("max_added_numbers", exact=True)
    assert (field.input_value(), playground.settings_count.inner_text()) == ("0", "1 changed")
    for text, reason in (("2", "ok"), ("1", "added_numbers"), ("", "ok")):
        field.fill(text)
        playground.settled()
        assert playground.shown_reason == reason
    assert playground.settings_count.inner_text() == ""
    field.press("-")
    expect(playground.page.locator("#fault-max_added_numbers")).to_contain_text("number")


def test_a_setting_out_of_range_is_named_where_it_stands(playground, complaints):
    complaints.allow("status of 422")
    before = playground.shown_reward
    playground.open_settings()
    field = playground.page.get_by_label("min_coverage", exact=True)
    field.fill("7")
    expect(playground.page.locator("#fault-min_coverage")).to_be_visible()
    expect(field).to_have_attribute("aria-invalid", "true")
    field.fill("")
    expect(playground.page.locator("#fault-min_coverage")).to_contain_text("number")
    field.fill("0.5")
    playground.settled()
    expect(playground.page.locator("#fault-min_coverage")).to_be_hidden()
    assert playground.shown_reward == before


def test_a_reference_that_cannot_be_read_is_an_error_and_no_reward(playground, complaints):
    complaints.allow("status of 422")
    right = playground.reference.input_value()
    playground.reference.fill("Step 1: nothing")
    expect(playground.reference_fault).to_be_visible()
    expect(playground.result).to_have_attribute("data-current", "no")
    expect(playground.reference).to_have_attribute("aria-invalid", "true")
    playground.write(reference=right)
    expect(playground.reference_fault).to_be_hidden()
    steps = {"steps": [{"action": "resuspend", "objects": ["cell pellet"], "parameters": ["250 μl"]}]}
    playground.write(reference=json.dumps(steps))
    expect(playground.page.locator(".pair .step").nth(1)).to_contain_text("resuspend")


def test_a_failure_says_where_and_shows_it(playground):
    playground.example("Broken JSON in a step")
    expect(playground.page.locator(".gate.failed")).to_contain_text("Format gate")
    playground.page.get_by_role("button", name="Show it in the text").click()
    selected = playground.response.evaluate("field => field.value.slice(field.selectionStart, field.selectionEnd)")
    assert '"350 μl"' in selected
    assert "\n" not in selected.strip()
    playground.example("The prose forgets a word")
    expect(playground.page.locator(".gate.failed")).to_contain_text("Consistency gate")
    assert playground.page.locator(".pairs .chip.uncovered").all_inner_texts() == ["12000", "xg"]
    expect(playground.page.locator(".cover.bad")).to_have_count(1)


def test_the_waterfall_goes_from_the_largest_reward_to_this_one(playground):
    playground.example("One step left out")
    rows = [
        [number(text) for text in row.locator("td.figure").all_inner_texts() if text]
        for row in playground.page.locator(".waterfall tbody tr").all()
    ]
    assert rows[0] == [1]
    assert any(change < 0 for change, _ in rows[1:-1])
    for (*_, before), (change, reward) in pairwise(rows[:-1]):
        assert before + change == pytest.approx(reward, abs=2e-4)
    assert rows[-1][-1] == playground.shown_reward


def test_a_suggestion_keeps_its_promise_and_can_be_undone(playground):
    playground.example("Two steps swapped")
    before, text = playground.shown_reward, playground.response.input_value()
    first = playground.page.locator(".suggestion").first
    promised = number(first.locator(".gain .hint").inner_text())
    gain = number(first.locator(".gain").inner_text())
    first.get_by_role("button").click()
    playground.settled()
    assert playground.shown_reward == pytest.approx(promised, abs=5e-5)
    assert playground.shown_reward - before == pytest.approx(gain, abs=2e-4)
    undo = playground.page.get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    undo.click()
    playground.settled()
    assert playground.shown_reward == before
    assert playground.response.input_value() == text
    first.get_by_role("button").click()
    expect(undo).to_be_visible()
    playground.response.press_sequentially(" ")
    expect(undo).to_have_count(0)


def test_the_eight_configurations_are_scored_and_can_be_applied(playground, client):
    playground.example("Two steps swapped")
    playground.page.locator(".matrix > summary").click()
    cells = playground.page.locator(".matrix .cell")
    expect(cells.last).not_to_have_text("…")
    names = [cell.get_attribute("aria-label").split(":")[0] for cell in cells.all()]
    assert len(set(names)) == 8
    for cell, name in zip(cells.all(), names, strict=True):
        config = dict(part.split(" ") for part in name.split(", "))
        assert number(cell.inner_text()) == pytest.approx(reward_of(client, playground, **config)[0], abs=5e-5), name
    best = cells.nth(names.index("order lcs, semantics product, total sum"))
    promised = number(best.inner_text())
    best.click()
    playground.settled()
    assert playground.shown_reward == promised
    expect(best).to_have_attribute("aria-pressed", "true")
    expect(playground.settings_count).to_have_text("3 changed")
    playground.page.keyboard.press("Control+z")
    expect(playground.settings_count).to_have_text("")


def test_text_is_never_markup(playground):
    playground.write(response=MARKUP + BROKEN, reference=playground.reference.input_value())
    step = json.dumps({"action": MARKUP, "objects": [MARKUP], "parameters": []})
    playground.write(response=f"<think>a</think><key>\nStep 1: {step}\n</key><orc>Step 1: {MARKUP}</orc><note>b</note>")
    assert playground.page.title() == "Assay playground"
    assert playground.page.locator(".result img, .result script").count() == 0
    assert "onerror" in playground.page.locator(".pairs").inner_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_calls_give_what_is_shown(playground):
    playground.example("One step left out")
    playground.response.press_sequentially(' it\'s $HOME `true` \\n "x" !! ')
    playground.settled()
    for title in ("curl, explanation", "curl, score"):
        command = playground.text_to_copy(title)
        shown = subprocess.run(["bash", "-c", command], check=True, capture_output=True, env={"no_proxy": "*"})
        reply = json.loads(shown.stdout)
        assert playground.shown_reward == pytest.approx(reply.get("reward", reply.get("rewards", [0])[0]), abs=5e-5)
    reply = json.loads(playground.text_to_copy("JSON reply"))
    assert playground.shown_reward == pytest.approx(reply["reward"], abs=5e-5)


def test_a_link_brings_everything_back_but_what_has_an_error(open_page, server, complaints):
    complaints.allow("status of 422")
    playground = open_page(permissions=["clipboard-read", "clipboard-write"])
    playground.open_settings()
    playground.page.get_by_label("order", exact=True).select_option("lcs")
    playground.page.get_by_label("max_added_numbers", exact=True).fill("0")
    playground.write(response=playground.response.input_value() + "\nµ – 🧪")
    text, reward = playground.response.input_value(), playground.shown_reward
    for fault in (None, "7"):
        if fault:
            playground.page.get_by_label("min_coverage", exact=True).fill(fault)
            expect(playground.page.locator("#fault-min_coverage")).to_be_visible()
        playground.link.click()
        expect(playground.note).to_contain_text("Link copied without" if fault else "Link copied.")
        link = playground.page.evaluate("navigator.clipboard.readText()")
        assert link.startswith(server.url)
        other = open_page(link)
        assert other.response.input_value() == text
        assert other.shown_reward == reward
        assert other.settings_count.inner_text() == "2 changed"
        other.page.wait_for_function(f"() => location.href === {json.dumps(link)}")
    copied = playground.text_to_copy("curl, score")
    playground.page.get_by_role("button", name="Copy", exact=True).click()
    expect(playground.note).to_have_text("Copied.")
    assert playground.page.evaluate("navigator.clipboard.readText()") == copied
