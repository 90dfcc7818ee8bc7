"""When things go wrong: texts that are too long, slow and missing servers, keys, late replies."""

from __future__ import annotations

import json

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import KEY
from tests.servers import ready

GONE = "ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE_CHUNKED|ERR_SOCKET_NOT_CONNECTED"


def wait_for(page: Page, held: list[Route], count: int) -> None:
    """Wait until `count` requests are held back."""
    for _ in range(500):
        if len(held) >= count:
            return
        page.wait_for_timeout(20)


def test_one_request_at_a_time_and_late_replies_are_dropped(playground):
    """The first reply is held back until more was typed: it must not be shown, and the newest text be asked for."""
    held, asked = [], []

    def hold(route):
        asked.append(route.request.post_data_json["response"])
        held.append(route)

    playground.page.evaluate(
        """() => {
          window.shownRewards = [];
          const watch = () => window.shownRewards.push(document.getElementById("reward").textContent);
          const box = document.getElementById("result-one");
          new MutationObserver(watch).observe(box, { childList: true, subtree: true });
        }"""
    )
    playground.page.route("**/v1/explain", hold)
    good = playground.response.input_value()
    playground.response.fill("late")
    wait_for(playground.page, held, 1)
    for text in ("later", "latest", good):
        playground.response.fill(text)
        playground.page.wait_for_timeout(200)
    assert asked == ["late"]
    held[0].continue_()
    wait_for(playground.page, held, 2)
    assert asked == ["late", good]
    held[1].continue_()
    playground.settled()
    assert playground.shown_reason == "ok"
    assert set(playground.page.evaluate("window.shownRewards")) == {playground.reward.inner_text()}


def test_a_server_that_goes_away_and_comes_back(open_page, complaints):
    complaints.allow(GONE)
    complaints.allow("status of 503")
    with ready() as server:
        playground = open_page(server.url)
        server.stop()
    reward = playground.reward.inner_text()
    playground.page.get_by_label("Example").select_option(label="A good answer")
    expect(playground.banner).to_contain_text("does not answer")
    expect(playground.result).to_have_attribute("data-current", "no")
    assert playground.reward.inner_text() == reward
    with ready("--port", server.url.rpartition(":")[2]):
        playground.settled()
        expect(playground.banner).to_be_hidden()
        expect(playground.note).to_contain_text("available again")
        assert playground.reward.inner_text() != reward


def test_a_service_that_is_not_ready_yet(open_page, server, complaints):
    complaints.allow("status of 503")
    playground = open_page()
    compiled = 7

    def compiling(route):
        detail = f"The kernels are being compiled: {compiled} of 19 functions."
        problem = {"title": "Not ready", "status": 503, "detail": detail, "errors": []}
        headers = {"Content-Type": "application/problem+json", "Retry-After": "1"}
        route.fulfill(status=503, json=problem, headers=headers)

    playground.page.route("**/v1/explain", compiling)
    playground.response.press_sequentially(" ")
    expect(playground.banner).to_contain_text("not ready yet")
    expect(playground.progress).to_contain_text("7 of 19")
    compiled = 10
    expect(playground.progress).to_contain_text("10 of 19")
    assert playground.progress_bar.evaluate("bar => [bar.value, bar.max]") == [10, 19]
    playground.page.unroute("**/v1/explain")
    playground.settled()
    expect(playground.banner).to_be_hidden()
    expect(playground.progress).to_be_hidden()


def test_a_key_is_asked_for_and_kept_nowhere(open_page, guarded, complaints):
    complaints.allow("status of 401")
    playground = open_page(guarded.url, settled=False)
    expect(playground.banner).to_contain_text("requires a key")
    field = playground.page.get_by_label("Bearer key")
    expect(field).to_be_focused()
    expect(playground.stale).to_contain_text("no result yet")
    expect(playground.result_one).to_be_hidden()
    field.fill("wrong")
    expect(playground.access_state).to_have_text("not accepted")
    field.fill(KEY)
    playground.settled()
    expect(playground.banner).to_be_hidden()
    assert playground.shown_reason == "ok"
    playground.page.wait_for_function("() => location.hash.startsWith('#a=')")
    kept = "JSON.stringify([location.href, document.cookie, {...localStorage}, {...sessionStorage}, history.state])"
    assert KEY not in playground.page.evaluate(kept)
    command = playground.text_to_copy("curl, score")
    assert KEY not in command
    assert "Bearer $ASSAY_API_KEY" in command
    assert json.loads(command.split("\n")[-2])["responses"]
