"""Saved views of lists: one user saves, sees and deletes them; invalid views are refused."""

import httpx2
import pytest

from erasure_checks import erased
from org_env import OrgEnv
from transport.page_client import make_browser, send, visible_text

ATTACK = "<script>alert(1)</script>"


async def save(browser: httpx2.AsyncClient, page: str, name: str, query: str) -> httpx2.Response:
    """Save a view of a list with the form on the page of the list."""
    fields = {"page": page, "name": name, "query": query}
    return await send(browser, f"/{page}?{query}", at="/views", **fields)


def views_of(html: str) -> str:
    """Return the visible text of the links to saved views, or an empty text."""
    _, head, rest = html.partition('aria-label="Saved views">')
    return visible_text(rest.partition("</nav>")[0]).removeprefix("Views").strip() if head else ""


@pytest.mark.parametrize(
    ("page", "query"),
    [("plans", "state=failed&q=a+b"), ("runs", "state=open"), ("audit", "actor=ann&channel=mcp")],
)
async def test_saved_view_is_linked_only_on_the_same_list(
    browser: httpx2.AsyncClient, page: str, query: str
) -> None:
    reply = await save(browser, page, "  My   view ", query)
    assert (reply.status_code, reply.headers["location"]) == (303, f"/{page}?{query}")
    shown = (await browser.get(f"/{page}")).text
    link = f'<a href="/{page}?{query.replace("&", "&amp;")}">My view</a>'
    assert link in shown
    assert 'aria-current="true">My view</a>' in (await browser.get(f"/{page}?{query}")).text
    for other in {"plans", "runs", "audit"} - {page}:
        assert views_of((await browser.get(f"/{other}")).text) == ""


async def test_saved_view_can_be_replaced_and_deleted(
    browser: httpx2.AsyncClient,
) -> None:
    await save(browser, "plans", "Mine", "mine=1")
    await save(browser, "plans", "Mine", "state=failed")
    shown = (await browser.get("/plans")).text
    assert views_of(shown) == "Mine"
    assert 'href="/plans?state=failed">Mine' in shown
    reply = await send(browser, "/plans", at="/views", page="plans", name="Mine", act="delete")
    assert (reply.status_code, reply.headers["location"]) == (303, "/plans")
    assert views_of((await browser.get("/plans")).text) == ""


async def test_saved_views_are_shown_only_to_the_owner(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    await save(browser, "plans", "Mine", "mine=1")
    async with make_browser(world.agent, "zoe") as zoe, make_browser(world.other_org) as other:
        for client in (zoe, other):
            assert views_of((await client.get("/plans")).text) == ""
            fields = {"page": "plans", "name": "Mine", "act": "delete"}
            assert (await send(client, "/plans?q=x", at="/views", **fields)).status_code == 303
    assert views_of((await browser.get("/plans")).text) == "Mine"


@pytest.mark.parametrize(
    ("name", "query"),
    [("", "q=x"), ("  ", "q=x"), ("n" * 61, "q=x"), ("a\x07b", "q=x"), ("Fine", ""),
     ("Fine", "before=1"), ("Fine", "q=" + "x" * 1_000), ("Fine", "&".join(["a=1"] * 31))],
)  # fmt: skip
async def test_refused_saved_view_keeps_the_typed_name(
    browser: httpx2.AsyncClient, name: str, query: str
) -> None:
    fields = {"page": "plans", "name": name, "query": query}
    reply = await send(browser, "/plans?q=x", at="/views", **fields)
    assert reply.status_code == 400
    assert 'role="alert"' in reply.text
    assert f'name="name" value="{name}"' in reply.text
    assert views_of((await browser.get("/plans")).text) == ""


async def test_saved_view_of_an_unknown_list_page_is_refused(browser: httpx2.AsyncClient) -> None:
    reply = await send(browser, "/plans?q=x", at="/views", page="tokens", name="a", query="q=x")
    assert reply.status_code == 400


async def test_saved_views_of_a_list_page_are_limited_to_twenty(
    browser: httpx2.AsyncClient,
) -> None:
    for n in range(20):
        assert (await save(browser, "runs", f"View {n}", f"q={n}")).status_code == 303
    reply = await save(browser, "runs", "One more", "q=more")
    assert reply.status_code == 400
    assert "You have 20 views of this list." in reply.text
    assert (await save(browser, "runs", "View 3", "q=other")).status_code == 303
    assert (await save(browser, "plans", "One more", "q=more")).status_code == 303


async def test_saved_view_omits_query_parameters_that_are_not_filters(
    browser: httpx2.AsyncClient,
) -> None:
    await save(browser, "plans", "Far", "q=x&before=00000000-0000-7000-8000-000000000001&next=//e")
    assert 'href="/plans?q=x">Far' in (await browser.get("/plans")).text


async def test_hostile_name_and_filter_of_a_saved_view_are_escaped(
    browser: httpx2.AsyncClient,
) -> None:
    await save(browser, "plans", ATTACK, f"q={ATTACK}")
    shown = (await browser.get("/plans")).text
    assert ATTACK not in shown
    assert "&lt;script&gt;" in shown


async def test_erasing_a_user_deletes_saved_views_naming_the_user(
    browser: httpx2.AsyncClient, world: OrgEnv
) -> None:
    async with make_browser(world.agent, "Zoë Q") as zoe:
        await save(zoe, "plans", "Hers", "mine=1")
        await save(browser, "audit", "What Zoë did", "actor=Zo%C3%AB+Q")
        await save(browser, "audit", "What ann did", "actor=ann")
        erasure = await erased(world, world.agent, "Zoë Q")
        assert erasure.counts["saved_view"] == 2
        assert views_of((await zoe.get("/plans")).text) == ""
    assert views_of((await browser.get("/audit")).text) == "What ann did"
