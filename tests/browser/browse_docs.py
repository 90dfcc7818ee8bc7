"""The page /docs: Swagger UI shows every route, and calls them, also with a key and behind a proxy's prefix."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import KEY

PATIENCE = 60_000
"""Milliseconds; Swagger UI takes seconds to draw an operation with all its examples."""


def open_docs(page: Page, address: str) -> None:
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    expect(page.locator(".opblock").first).to_be_attached(timeout=PATIENCE)


def try_example(page: Page, status: int, path: str = "/v1/score") -> None:
    """Try the example of a POST route as the page fills it in, and expect a reply with this status."""
    operation = page.locator(".opblock-post", has=page.get_by_text(path, exact=True))
    if not operation.locator(".opblock-body").is_visible():
        operation.locator(".opblock-summary-control").click()
        operation.get_by_role("button", name="Try it out").click()
    with page.expect_response(lambda reply: reply.url.partition("?")[0].endswith(path)):
        operation.get_by_role("button", name="Execute").click()
    expect(operation.locator(".live-responses-table .response-col_status").last).to_have_text(
        str(status), timeout=PATIENCE
    )


def test_every_route_is_shown_and_can_be_called_behind_a_proxy(contexts, server):
    """The fixture `contexts` fails a test whose page violates its Content-Security-Policy."""
    page = contexts().new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    prefix = "/behind/a/proxy/"
    page.route(f"**{prefix}**", lambda route: route.continue_(url=route.request.url.replace(prefix, "/")))
    open_docs(page, f"{server.url}{prefix}docs")
    with server.client() as client:
        operations = [key for methods in client.get("/openapi.json").json()["paths"].values() for key in methods]
    expect(page.locator(".opblock")).to_have_count(len(operations))
    try_example(page, 200)
    assert asked[-1] == f"{server.url}{prefix}v1/score"
    assert all(url.startswith((f"{server.url}{prefix}", "data:")) for url in asked)


def test_a_call_with_a_bearer_key_or_with_the_password_that_the_browser_asks_for(contexts, guarded, complaints):
    page = contexts().new_page()
    open_docs(page, f"{guarded.url}/docs")
    page.locator(".auth-wrapper .authorize").first.click()
    page.locator("#auth-bearer-value").fill(KEY)
    page.locator(".modal-ux").get_by_role("button", name="Apply credentials").first.click()
    page.locator(".modal-ux").get_by_role("button", name="Close").last.click()
    try_example(page, 200)
    complaints.allow("status of 401")
    page = contexts(http_credentials={"username": "any", "password": KEY}).new_page()
    open_docs(page, f"{guarded.url}/docs")
    try_example(page, 200)
