"""A group of rollouts: rewards, advantages, adding, removing, pasting many."""

from __future__ import annotations

import json
import shutil
import subprocess

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.playground import number


@pytest.fixture
def group(playground):
    playground.see("Compare a group")
    return playground


def test_rewards_and_advantages_are_those_of_the_service(group, server):
    rollouts = [field.input_value() for field in group.page.locator("#rollouts textarea").all()]
    body = {"responses": rollouts, "references": [group.reference.input_value()], "include": ["advantages"]}
    reply = httpx.post(f"{server.url}/v1/score", json=body, trust_env=False).json()
    rows = group.table()
    assert len(rows) == len(rollouts) >= 4
    assert [number(row[1]) for row in rows] == pytest.approx(reply["rewards"], abs=5e-5)
    assert [number(row[2]) for row in rows] == pytest.approx(reply["advantages"], abs=5e-4)
    assert [row[3].replace(" ", "_") for row in rows] == reply["reasons"]
    assert min(reply["rewards"]) < max(reply["rewards"])


def test_editing_a_rollout_changes_its_row_and_all_advantages(group):
    before = group.table()
    group.page.locator("#rollouts summary").first.click()
    group.page.get_by_label("Rollout 1", exact=True).fill("nothing")
    group.settled()
    after = group.table()
    assert after[0][3] == "missing sections"
    assert [row[1] for row in after[1:]] == [row[1] for row in before[1:]]
    assert all(old[2] != new[2] for old, new in zip(before, after, strict=True))


def test_rollouts_come_and_go(group):
    count = len(group.table())
    group.page.get_by_role("button", name="Add an empty rollout").click()
    expect(group.page.get_by_label(f"Rollout {count + 1}", exact=True)).to_be_focused()
    group.settled()
    assert len(group.table()) == count + 1
    group.page.get_by_role("button", name="Add current response").click()
    group.settled()
    rows = group.table()
    assert rows[-1][3] == "ok"
    group.page.get_by_role("button", name=f"Remove rollout {count + 1}").click()
    group.settled()
    assert [row[1] for row in group.table()] == [row[1] for row in rows[:count] + rows[count + 1 :]]


def test_a_group_without_spread_is_called_so_and_one_alone_needs_no_advantage(group):
    group.page.locator("summary", has_text="Paste many at once").click()
    many = group.page.get_by_label("JSON array of texts")
    for text, said in ((json.dumps(["a", "b"]), "no gradient"), (json.dumps({"response": "a"}), "group of one")):
        many.fill(text)
        group.page.get_by_role("button", name="Replace the rollouts").click()
        group.settled()
        expect(group.page.locator(".summary")).to_contain_text(said)
    group.page.locator("#rollouts summary").first.click()
    group.page.get_by_role("button", name="Remove rollout 1").click()
    expect(group.page.locator(".summary")).to_contain_text("Add rollouts")
    assert group.table() == []


@pytest.mark.parametrize("text", ["{", "[1]", "[]", '{"response": 1}', '{"response": "a"}\n\n', json.dumps(["a"] * 65)])
def test_what_cannot_be_imported_changes_nothing(group, text):
    before = group.table()
    group.page.locator("summary", has_text="Paste many at once").click()
    group.page.get_by_label("JSON array of texts").fill(text)
    group.page.get_by_role("button", name="Replace the rollouts").click()
    if text.endswith("\n\n"):
        group.settled()
        assert len(group.table()) == 1
        return
    expect(group.import_fault).to_be_visible()
    assert group.table() == before


def test_one_of_them_can_be_explained(group):
    row = group.table()[2]
    group.page.get_by_role("button", name="Explain rollout 3").click()
    group.settled()
    assert group.shown_reward == pytest.approx(number(row[1]), abs=5e-5)
    expect(group.result).to_be_focused()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_call_gives_what_is_shown(group):
    command = group.text_to_copy("curl, score")
    shown = subprocess.run(["bash", "-c", command], check=True, capture_output=True, env={"no_proxy": "*"})
    reply = json.loads(shown.stdout)
    assert [number(row[1]) for row in group.table()] == pytest.approx(reply["rewards"], abs=5e-5)
    assert [number(row[2]) for row in group.table()] == pytest.approx(reply["advantages"], abs=5e-4)
