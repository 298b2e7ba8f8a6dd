"""Error pages, and pages whose texts contain invisible or direction-changing characters."""

import json
from asyncio import to_thread
from http.client import HTTPConnection
from urllib.parse import urlsplit

import psycopg
import pytest

from auth_env import bearer, make_token, served
from org_env import OrgEnv, make_step
from postgres_servers import ServerDatabase
from run_documents import render_all
from transport.full_app import free_port
from transport.page_client import Browser, main_text, make_browser
from waybook.app.request.request_context import RequestContext
from waybook.core.hidden_characters import count_hidden
from waybook.errors import Unavailable
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.assets import asset_url

#: Header that a browser sends when it loads a page.
HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def failing(_: PageRequest) -> RequestContext:
    raise Unavailable


async def breaking(_: PageRequest) -> RequestContext:
    raise ZeroDivisionError


async def test_unknown_path_returns_html_to_browsers_and_json_to_programs(browser: Browser) -> None:
    page = await browser.get("/nowhere", headers=HTML)
    assert page.status_code == 404
    assert "<h1>Page not found</h1>" in page.text
    assert '<nav aria-label="Main">' in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    program = await browser.get("/nowhere")
    assert (program.status_code, program.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/api/nowhere", "/mcp/x", "/static/1/nowhere.js", "/metrics/x"])
async def test_unknown_api_path_returns_json_404_even_to_a_browser(
    browser: Browser, path: str
) -> None:
    reply = await browser.get(path, headers=HTML)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_unsupported_method_returns_html_405_page_to_browser(browser: Browser) -> None:
    page = await browser.get("/decisions", headers=HTML)
    assert (page.status_code, "Method not allowed" in page.text) == (405, True)


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [(failing, 503, "Database unavailable"), (breaking, 500, "Internal error")],
)
async def test_error_page_offers_retry_after_temporary_errors(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, fault: object, status: int, said: str
) -> None:
    monkeypatch.setattr(PageRequest, "context", fault)
    page = await browser.get("/plans?q=x", headers=HTML)
    assert page.status_code == status
    assert f"<h1>{said}</h1>" in page.text
    assert 'href="/plans?q=x">Try again</a>' in page.text
    assert "Traceback" not in page.text
    program = await browser.get("/")
    assert (program.status_code, program.json()["error"]["code"]) == (status, "UNAVAILABLE")


# Faults of a real database behind a real server.


def get_in_turn(address: str, paths: list[str], headers: dict[str, str]) -> list[tuple[int, str]]:
    """Return the statuses and texts of pages that are requested on one connection."""
    connection, replies = HTTPConnection(urlsplit(address).netloc), []
    connection.connect()
    # Without a socket, `HTTPConnection` fails instead of connecting again.
    connection.auto_open = 0
    for path in paths:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        replies.append((reply.status, reply.read().decode()))
    connection.close()
    return replies


def damage(place: ServerDatabase, statement: str) -> None:
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        admin.execute(statement.encode())


async def test_broken_page_shows_the_500_page_and_keeps_the_connection(
    own_world: OrgEnv, own_place: ServerDatabase
) -> None:
    async with free_port(own_world.agent) as address:
        damage(own_place, "drop table run_word")
        paths = ["/runs?q=nile", "/runs?q=nile", "/plans"]
        replies = await to_thread(get_in_turn, address, paths, HTML)
    assert [status for status, _ in replies] == [500, 500, 200]
    for _, page in replies[:2]:
        assert "<h1>Internal error</h1>" in page
        assert 'href="/runs?q=nile">Try again</a>' in page
        assert "run_word" not in page


async def test_unreadable_tokens_give_a_json_error_and_keep_the_connection(
    own_world: OrgEnv, own_place: ServerDatabase
) -> None:
    headers = bearer(await make_token(own_world.agent))
    async with served(own_world) as address:
        damage(own_place, "revoke select on api_token from waybook_app")
        replies = await to_thread(get_in_turn, address, ["/api/documents/1", "/healthz"], headers)
        damage(own_place, "grant select on api_token to waybook_app")
    (status, text), (health, _) = replies
    assert (status, health) == (500, 200)
    assert json.loads(text)["error"]["code"] == "UNAVAILABLE"


# Tests of hidden characters.


TURNED = "Pay \u202eeno\u202c \x1b[31mnow\u200b"
SHOWN = "Pay ⟦U+202E⟧eno⟦U+202C⟧ ⟦U+001B⟧[31mnow⟦U+200B⟧"


async def test_plan_pages_show_hidden_characters_in_escaped_form(world: OrgEnv) -> None:
    agent = world.agent
    plan = await agent.plan([make_step(TURNED, title=TURNED)], name=TURNED, researchQuestion=TURNED)
    taken = await agent.take(plan)
    await agent.review(taken, summary=TURNED)
    place = f"/plans/{plan['planId']}"
    async with make_browser(agent) as browser:
        for address in ("/", "/inbox", place, f"{place}/steps/{taken['stepId']}"):
            page = await browser.get(address)
            assert SHOWN in main_text(page)
            assert not count_hidden(main_text(page))


async def test_hidden_characters_are_escaped_on_page_but_not_in_markdown(world: OrgEnv) -> None:
    agent = world.agent
    run = await agent.run()
    await agent.submit_documents(await agent.job(run), f"# Found\n\n{TURNED}")
    await render_all(agent)
    report = await agent.progress(run, detail=True)
    document = report["stages"][0]["documents"][0]["resourceId"]
    async with make_browser(agent) as browser:
        page = (await browser.get(f"/api/documents/{document}")).text
        markdown = (await browser.get(f"/api/documents/{document}?format=markdown")).text
    assert "Pay ⟦U+202E⟧eno" in page
    assert "Pay \u202eeno" in markdown


async def test_style_sheet_isolates_text_direction_of_inline_elements(world: OrgEnv) -> None:
    async with make_browser(world.agent) as browser:
        style = (await browser.get(asset_url("waybook.css"))).text
    selectors = style.partition("{unicode-bidi:isolate")[0].rpartition("}")[2]
    assert {"a", "b", "span", "strong", "code"} <= {*selectors.strip().split(",")}
