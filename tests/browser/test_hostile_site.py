"""Hostile page on another port of the same machine, which cannot read or change Waybook's data."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from urllib.parse import urlencode

from playwright.async_api import BrowserContext, Frame, Page

from database_rows import rows
from org_env import OrgEnv
from transport.full_app import free_port
from transport.valid_forms import valid_forms
from waybook.transport.http.html.layout import COOKIE

#: Value of Waybook's cookie that the hostile site sets. This is possible because cookies apply to
#: all ports of a host.
PLANTED = "p" * 43

#: Script of the hostile site. It sends requests to Waybook, none of which may succeed.
TRIES = """async ({site, plan, forms, planted}) => {
  const told = {};
  const attempt = async (name, deed) => {
    try { told[name] = await deed(); } catch (fault) { told[name] = "refused"; }
  };
  const reading = { credentials: "include" };
  await attempt("read a page", async () => (await fetch(site + "/", reading)).text());
  await attempt("read JSON", async () => (await fetch(site + plan, reading)).json());
  await attempt("read figures", async () => (await fetch(site + "/metrics")).text());
  const call = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call",
    params: { name: "create_research_plan", arguments: { name: "Pwned", researchQuestion: "x",
      steps: [{ stepType: "search", instructions: "x" }] } } });
  for (const type of ["text/plain", "application/json"])
    for (const mode of ["cors", "no-cors"])
      await attempt(`call a tool, ${type}, ${mode}`, async () => {
        const reply = await fetch(site + "/mcp", { method: "POST", mode, body: call,
          credentials: "include", headers: { "content-type": type,
          accept: "application/json, text/event-stream" } });
        return reply.type === "opaque" ? "sent blindly" : reply.text();
      });
  for (const [where, body] of forms)
    await attempt(`send ${where}`, async () => {
      await fetch(site + where, { method: "POST", mode: "no-cors", credentials: "include",
        headers: { "content-type": "application/x-www-form-urlencoded" },
        body: body + "&token=" + planted });
      return "sent blindly";
    });
  const embed = (tag, attribute, address) => new Promise((done) => {
    const element = document.createElement(tag);
    element.onload = () => done("loaded");
    element.onerror = () => done("refused");
    element[attribute] = site + address;
    document.body.append(element);
  });
  await attempt("a script of JSON", () => embed("script", "src", plan));
  await attempt("a script of ours", () => embed("script", "src", "/static/x/waybook.js"));
  await attempt("an image of a map", () => embed("img", "src", plan.replace("/api", "")));
  await attempt("the stream", () => new Promise((done) => {
    const source = new EventSource(site + "/live", { withCredentials: true });
    source.onmessage = () => done("heard something");
    source.onerror = () => { source.close(); done("refused"); };
  }));
  return told;
}"""


@asynccontextmanager
async def foreign_site() -> AsyncIterator[str]:
    """Serve a hostile site of one page, which sets a cookie with the name of Waybook's cookie."""
    page = b"<!doctype html><title>Prizes</title><body>You have won."
    planted = f"set-cookie: {COOKIE}={PLANTED}; path=/; httponly; samesite=strict"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n{planted}\r\nconnection: close\r\n\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Browsers may open a connection without using it.
        with closing(writer), suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head.encode() + page)
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_requests_from_other_websites_are_refused_and_change_nothing(
    world: OrgEnv, context: BrowserContext
) -> None:
    forms = (await valid_forms(world.agent)).values()
    encoded = [(where, urlencode(fields)) for where, fields in forms]
    plan = f"/api/plans/{(await world.agent.plan())['planId']}/outputs"
    before = rows(world)
    async with free_port(world.agent) as site, foreign_site() as elsewhere:
        page = await context.new_page()
        await page.goto(elsewhere)
        args = {"site": site, "plan": plan, "forms": encoded, "planted": PLANTED}
        results = await page.evaluate(TRIES, args)
        assert {name: came for name, came in results.items() if came != "refused"} == {}
        assert len(results) > len(encoded)
        await _framed(page, site)
        await _opened(page, site)
        for where, fields in forms:
            assert "FORBIDDEN" in await _sent(page, site + where, fields), where
    assert rows(world) == before


async def _framed(page: Page, site: str) -> None:
    """Check that another site cannot show our pages in a frame."""
    await page.evaluate(
        """(address) => new Promise((done) => {
          const frame = document.createElement("iframe");
          frame.onload = done;
          frame.src = address;
          document.body.append(frame);
        })""",
        site,
    )
    inner: list[Frame] = page.frames[1:]
    assert [frame.url for frame in inner] == ["chrome-error://chromewebdata/"]


async def _opened(page: Page, site: str) -> None:
    """Check that another site can open our page in a window, but cannot read or change it."""
    async with page.context.expect_page() as opening:
        await page.evaluate("address => { window.theirs = window.open(address); }", site)
    ours = await opening.value
    await ours.wait_for_load_state()
    assert await ours.title() != ""
    assert await ours.evaluate("window.opener") is None
    reached = "() => { try { return window.theirs.document.title; } catch { return null; } }"
    assert not await page.evaluate(reached)
    assert await page.evaluate("window.theirs.closed")
    await ours.close()


async def _sent(page: Page, where: str, fields: dict[str, str]) -> str:
    """Submit a forged form with the token of the planted cookie; return the reply's text."""
    async with page.context.expect_page() as opening:
        await page.evaluate(
            """([where, fields]) => {
              const form = document.createElement("form");
              Object.assign(form, { method: "post", action: where, target: "_blank" });
              form.setAttribute("rel", "opener");
              for (const [name, value] of Object.entries(fields)) {
                const field = document.createElement("input");
                Object.assign(field, { type: "hidden", name, value });
                form.append(field);
              }
              document.body.append(form);
              form.submit();
            }""",
            [where, {**fields, "token": PLANTED}],
        )
    opened = await opening.value
    await opened.wait_for_load_state()
    text = await opened.inner_text("body")
    await opened.close()
    return text
