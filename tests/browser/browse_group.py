"""A group of rollouts: rewards, advantages, adding, removing, pasting many."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from assay import Scorer
from tests.browser.playground import number, reason_in
from tests.browser.texts import REFERENCE, RESPONSE


@pytest.fixture
def group(playground):
    playground.see("Compare a group")
    return playground


def test_rewards_and_advantages_are_those_of_the_service(group, client):
    rollouts = [field.input_value() for field in group.page.locator("#rollouts textarea").all()]
    body = {"responses": rollouts, "references": [group.reference.input_value()], "include": ["advantages"]}
    reply = client.post("/v1/score", json=body).json()
    rows = group.table()
    assert len(rows) == len(rollouts) >= 4
    assert [number(row[1]) for row in rows] == pytest.approx(reply["rewards"], abs=5e-5)
    assert [number(row[2]) for row in rows] == pytest.approx(reply["advantages"], abs=5e-4)
    assert [reason_in(row[3]) for row in rows] == reply["reasons"]
    assert min(reply["rewards"]) < max(reply["rewards"])


def test_rollouts_come_and_go(group):
    before = group.table()
    count = len(before)
    group.page.get_by_role("button", name="Add an empty rollout").click()
    expect(group.page.get_by_label(f"Rollout {count + 1}", exact=True)).to_be_focused()
    group.settled()
    assert len(group.table()) == count + 1
    group.page.get_by_role("button", name="Add current response").click()
    group.settled()
    rows = group.table()
    assert rows[-1][3] == "ok: order 0.00"
    group.page.get_by_role("button", name=f"Remove rollout {count + 1}").click()
    group.settled()
    assert [row[1] for row in group.table()] == [row[1] for row in rows[:count] + rows[count + 1 :]]
    group.page.locator("#rollouts summary").first.click()
    group.page.get_by_label("Rollout 1", exact=True).fill("nothing")
    group.settled()
    after = group.table()
    assert after[0][3] == "missing sections"
    assert all(old[2] != new[2] for old, new in zip(before, after, strict=False))


def test_what_cannot_be_imported_changes_nothing(group):
    before = group.table()
    group.page.locator("summary", has_text="paste many at once").click()
    for text in ("{", "[1]", "[]", '{"response": 1}'):
        group.page.get_by_label("JSON array of texts").fill(text)
        group.page.get_by_role("button", name="Replace the rollouts").click()
        expect(group.import_fault).to_be_visible()
        assert group.table() == before


def test_the_table_is_sorted_by_a_click(group):
    for title, column, descending in (("Reward", 1, True), ("Advantage", 2, True), ("Reason", 3, False)):
        head = group.page.get_by_role("button", name=title, exact=True)
        head.click()
        expect(group.page.get_by_role("columnheader", name=title)).to_have_attribute(
            "aria-sort", "descending" if descending else "ascending"
        )
        shown = [row[column] if column == 3 else number(row[column]) for row in group.table()]
        assert shown == sorted(shown, reverse=descending)
    group.page.get_by_role("button", name="Reward", exact=True).click()
    first = group.table()[0]
    group.page.locator("#result-group").get_by_role("button", name="Why?").first.click()
    group.settled()
    assert group.shown_reward == number(first[1])
    expect(group.result).to_be_focused()


CORRECTED = RESPONSE.replace("2 h", "1 h")
ROWS = [
    {"id": "digest-a", "prompt": "Digest the plasmid.", "reference": REFERENCE, "response": RESPONSE},
    {"id": "spin-a", "prompt": "Spin it.", "reference": REFERENCE.split("\n")[0], "response": "no sections"},
    {"id": "digest-b", "prompt": "Digest the plasmid.", "reference": REFERENCE, "response": CORRECTED},
]


def open_file(group, rows) -> None:
    content = "\n".join(json.dumps(row) for row in rows).encode()
    group.page.locator("summary", has_text="paste many at once").click()
    group.rollouts_file.set_input_files({"name": "step-12.jsonl", "mimeType": "", "buffer": content})
    expect(group.page.locator("#walk-about:not(:empty), #import-fault:not(:empty)")).to_have_count(1)
    group.settled()


def test_a_rollouts_file_is_walked_through(group):
    open_file(group, ROWS)
    assert [row[0] for row in group.table()] == ["1 · digest-a", "2 · digest-b"]
    expect(group.walk_about).to_have_text("step-12.jsonl, group 1 of 2.")
    assert group.reference.input_value() == REFERENCE
    rewards = [number(row[1]) for row in group.table()]
    assert rewards[1] > rewards[0] > 0
    group.page.get_by_role("button", name="Next group").click()
    group.settled()
    assert [row[0] for row in group.table()] == ["1 · spin-a"]
    assert group.reference.input_value() == ROWS[1]["reference"]
    expect(group.page.get_by_role("button", name="Next group")).to_be_disabled()
    group.walk_group.select_option(label="1: Digest the plasmid. (2)")
    group.settled()
    group.page.wait_for_function("() => location.hash.startsWith('#a=')")
    group.page.evaluate("() => new Promise((done) => setTimeout(done, 600))")  # by the page's clock, as its own 400 ms
    group.page.reload()
    group.settled()
    assert [row[0] for row in group.table()] == ["1 · digest-a", "2 · digest-b"]


def test_an_array_of_references_has_alternatives(group):
    several = [REFERENCE.split("\n")[0], REFERENCE]
    open_file(group, [row | {"reference": several} for row in ROWS[::2]])
    assert json.loads(group.reference.input_value()) == {"any_of": several}
    best = Scorer().score([CORRECTED], [REFERENCE]).rewards[0]
    assert number(group.table()[1][1]) == pytest.approx(best, abs=5e-5)


def test_a_dropped_file_is_read(group):
    group.page.evaluate(
        """([name, text]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], name));
          const event = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
          document.getElementById("input-group").dispatchEvent(event);
        }""",
        ["dropped.jsonl", json.dumps(ROWS[1])],
    )
    expect(group.walk_about).to_have_text("dropped.jsonl, group 1 of 1.")


def test_a_large_group_is_cut_and_says_so(group):
    open_file(group, [{"prompt": "p", "response": f"rollout {index}"} for index in range(70)])
    expect(group.walk_about).to_contain_text("70 rollouts; the first 64 are shown")
    assert len(group.table()) == 64


def test_differences_of_two_rollouts(group):
    """The best and the worst are compared at first; equal lines are counted."""
    open_file(group, ROWS)
    lines = group.page.locator(".diff > li")
    assert lines.locator("p").all_inner_texts() == [
        *("incubate: reaction; 37 °C, 1 h", "incubate: reaction; 37 °C, 2 h"),
        *("Incubate the reaction at 37 °C for 1 h.", "Incubate the reaction at 37 °C for 2 h."),
    ]
    assert lines.locator("span").all_inner_texts() == ["1", "2", "1", "2"]
    expect(group.result_group).to_contain_text("Steps: 3 equal, 1 different")
    group.page.get_by_label("First rollout").select_option(index=0)
    expect(lines).to_have_count(0)
    group.page.get_by_label("Second rollout").select_option(index=1)
    expect(lines.locator("span")).to_have_text(["2", "1", "2", "1"])
