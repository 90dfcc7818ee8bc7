"""What the settings and references of rules 3 change on the page: alternatives, equal terms, numbers of the prose."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from tests.browser.conftest import Complaints, axe_finds
from tests.browser.playground import Playground
from tests.cases import told
from tests.cases.writing import step

OURS = [step("add", "pbs", "500 µl"), step("spin", "tube", "60 s")]
THEIRS = [step("add", "pbs", "0.5 ml"), step("spin", "tube", "1 min")]
LINES = "\n".join(f"Step {k}: {json.dumps(element)}" for k, element in enumerate(THEIRS[::-1], 1))
ANY_OF = json.dumps({"any_of": [LINES, {"steps": THEIRS}]})


def test_the_alternative_that_counts(playground: Playground, complaints: Complaints) -> None:
    complaints.allow("422")
    playground.write(told(OURS), ANY_OF)
    card = playground.page.locator("section.card", has_text="Alternative 2 of 2 counts")
    expect(card).to_be_visible()
    rewards = card.locator("li").all_inner_texts()
    assert [text.split()[0] for text in rewards] == ["0.2586", f"{playground.shown_reward:.4f}"]
    card.locator("summary").click()
    expect(card.locator("pre")).to_have_text(json.dumps({"steps": THEIRS}, indent=2))
    assert playground.page.locator('.step[data-kind="reference"] .side').all_inner_texts() == [
        "Reference 1",
        "Reference 2",
    ]
    assert axe_finds(playground.page) == []
    playground.write(told(OURS[::-1]))
    expect(playground.page.locator("section.card", has_text="Alternative 1 of 2 counts").locator("pre")).to_have_text(
        LINES
    )
    playground.reference.fill(json.dumps({"any_of": [LINES, "no step"]}))
    expect(playground.reference_fault).to_contain_text("Alternative 2: line 1 is not of the form")
    playground.write(reference=LINES)
    expect(card).to_be_hidden()


def test_equal_terms_and_numbers_of_the_prose(playground: Playground) -> None:
    playground.open_settings()
    page = playground.page
    page.get_by_label("parameter_similarity", exact=True).select_option("quantities")
    playground.write(told(OURS, " at 4 °C"), json.dumps({"steps": THEIRS}))
    assert playground.shown_reward == 1.0
    expect(page.locator(".joint dd", has_text="500 μl = 0.5 ml")).to_be_visible()
    assert page.locator(".chip .word.shared").all_inner_texts() == ["500 μl", "0.5 ml", "60 s", "1 min"]
    page.get_by_label("max_added_numbers", exact=True).fill("0")
    expect(playground.reason).to_have_text("added numbers")
    assert page.locator("mark.added").all_inner_texts() == ["4", "4"]
    assert page.locator("#input-one .at-added").all_inner_texts() == ["4", "4"]
    expect(page.locator(".chip.added").first).to_have_text("4")
    assert axe_finds(page) == []
    page.locator(".suggestion", has_text="Delete “4”").get_by_role("button").click()
    expect(playground.reason).to_have_text("ok")


def test_a_wrong_dose_is_shown_beside_its_pair(playground: Playground) -> None:
    playground.example("A wrong dose")
    page = playground.page
    first = page.locator(".pairs > li").first
    expect(first.locator(".tip.wrong")).to_have_text("Write 250 μl instead of 25 ml")
    assert first.locator(".chip.extra").all_text_contents() == ["25 ml (extra)"]
    assert first.locator(".chip.missing").all_text_contents() == ["250 μl (missing)"]
    expect(first.locator(".joint div", has_text="Wrong quantities")).to_contain_text("1")
    expect(page.locator("tr[data-factor=quantities]")).to_contain_text("1 wrong quantity, 0.5 for each")
    assert axe_finds(page) == []
    page.locator(".suggestion", has_text="write 250 μl instead of 25 ml").get_by_role("button").click()
    playground.settled()
    expect(page.locator("tr[data-factor=quantities]")).to_contain_text("no wrong quantity")
    playground.example("The prose says not to")
    assert "not" in page.locator(".chip.added").all_text_contents()
    page.locator(".suggestion", has_text="Drop “not”").get_by_role("button").click()
    expect(playground.reason).to_contain_text("ok")
