"""HTTP errors: an HTML page for people and JSON for programs, both created without the database."""

import httpx2
import pytest

from waybook.app.request.request_context import RequestContext
from waybook.errors import Unavailable
from waybook.transport.http.dashboard.page import PageRequest

#: Header that a browser sends when it loads a page.
HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def failing(_: PageRequest) -> RequestContext:
    raise Unavailable


async def breaking(_: PageRequest) -> RequestContext:
    raise ZeroDivisionError


async def test_unknown_path_returns_html_to_browsers_and_json_to_programs(
    browser: httpx2.AsyncClient,
) -> None:
    page = await browser.get("/nowhere", headers=HTML)
    assert page.status_code == 404
    assert "<h1>Page not found</h1>" in page.text
    assert '<nav aria-label="Main">' in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    program = await browser.get("/nowhere")
    assert (program.status_code, program.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/api/nowhere", "/mcp/x", "/static/1/nowhere.js", "/metrics/x"])
async def test_unknown_api_path_returns_json_404_even_to_a_browser(
    browser: httpx2.AsyncClient, path: str
) -> None:
    reply = await browser.get(path, headers=HTML)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_unsupported_method_returns_html_405_page_to_browser(
    browser: httpx2.AsyncClient,
) -> None:
    page = await browser.get("/decisions", headers=HTML)
    assert (page.status_code, "Method not allowed" in page.text) == (405, True)


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [(failing, 503, "Database unavailable"), (breaking, 500, "Internal error")],
)
async def test_error_page_offers_retry_after_temporary_errors(
    browser: httpx2.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    fault: object,
    status: int,
    said: str,
) -> None:
    monkeypatch.setattr(PageRequest, "context", fault)
    page = await browser.get("/plans?q=x", headers=HTML)
    assert page.status_code == status
    assert f"<h1>{said}</h1>" in page.text
    assert 'href="/plans?q=x">Try again</a>' in page.text
    assert "Traceback" not in page.text
    program = await browser.get("/")
    assert (program.status_code, program.json()["error"]["code"]) == (status, "UNAVAILABLE")
