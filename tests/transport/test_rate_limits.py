"""Rate limits over HTTP: the server first delays calls and then refuses them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

import httpx2
import pytest
from mcp import Client
from mcp_types import TextContent
from starlette.requests import Request

from auth_env import bearer, make_token, served
from database_fixtures import ON_POSTGRES_18
from org_env import AgentClient, OrgEnv, make_application
from transport.fake_dispatcher import TOOLS, serve
from transport.full_app import TOKEN
from transport.messages import LEGACY, make_request, modern_headers
from waybook.app.request.caller import Caller
from waybook.app.request.rate_limit import NANOSECONDS, TokenBuckets
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.cli.operator.serve import build_http_app
from waybook.core.decision_context import Channel
from waybook.errors import Forbidden
from waybook.settings import LoadedSettings, Settings
from waybook.store.calls import CallLog
from waybook.transport.gateway import ToolGateway
from waybook.transport.http.app import AllowedHosts, build_app
from waybook.transport.http.dashboard.routes import dashboard_routes
from waybook.transport.http.html.layout import COOKIE
from waybook.transport.http.rate_limits import DELAY_SECONDS, DELAYS, MAX_FAILURES, RequestThrottle
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.server import Drain
from waybook.transport.mcp.server import build_server

pytestmark = ON_POSTGRES_18

BURST = 3
CALL = make_request("tools/call", name="list_active_plans", arguments={})
LIST = make_request("tools/list")
THEIRS = {"x-org": "theirs"}


def nothing() -> None:
    """Default of `Flooded.meanwhile`: nothing else happens while a call is delayed."""


@dataclass
class Flooded:
    """Test server for two orgs that records how long calls are delayed; a test sets its clock."""

    dispatcher: ServerDispatcher
    agent: AgentClient
    other_org: AgentClient
    now: int = 100 * NANOSECONDS
    pauses: list[float] = field(default_factory=list)
    meanwhile: Callable[[], None] = nothing

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.meanwhile()

    def use_up(self, channel: Channel = Channel.MCP) -> None:
        for _ in range(BURST):
            self.dispatcher.require_capacity(replace(self.agent.caller, channel=channel))

    def later(self) -> None:
        self.now += 10 * NANOSECONDS

    def caller(self, channel: Channel) -> Callable[[Request | None], Awaitable[Caller]]:
        """Return a function that finds the caller of a request by the header `x-org`."""

        async def caller(request: Request | None) -> Caller:
            org = request.headers.get("x-org") if request else None
            if org == "nobody's":
                raise Forbidden
            agent = self.other_org if org == "theirs" else self.agent
            return replace(agent.caller, channel=channel)

        return caller

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async def dispatcher() -> ServerDispatcher:
            return self.dispatcher

        gateway = ToolGateway(dispatcher, self.caller(Channel.MCP))
        app = build_app(
            build_server(TOOLS, gateway),
            hosts=AllowedHosts(),
            ready=gateway.is_ready,
            reading=ReadApi(ToolGateway(dispatcher, self.caller(Channel.REST))),
            pages=dashboard_routes(self.dispatcher, self.caller(Channel.DASHBOARD)),
            pace=RequestThrottle(gateway, self.pause),
        )
        async with serve(app) as where:
            yield where


@pytest.fixture
def flooded(world: OrgEnv) -> Flooded:
    services = replace(world.dispatcher.services, rate_limit=TokenBuckets(2, BURST))
    made = Flooded(
        ServerDispatcher(services, CallLog(services.database)), world.agent, world.other_org
    )
    made.dispatcher.clock = lambda: made.now
    return made


@pytest.fixture
async def http(flooded: Flooded) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        flooded.serving() as address,
        httpx2.AsyncClient(base_url=address, trust_env=False) as client,
    ):
        yield client


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_rate_limited_tool_call_returns_tool_error_to_client(
    flooded: Flooded, era: Literal["legacy", "2026-07-28"]
) -> None:
    async with flooded.serving() as address, Client(f"{address}/mcp", mode=era) as client:
        flooded.later()  # Let time pass, because connecting used up part of the rate limit.
        flooded.use_up()
        result = await client.call_tool("list_active_plans", {})
    assert result.is_error
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert json.loads(block.text)["error"]["code"] == "RATE_LIMITED"


@pytest.mark.parametrize(
    "headers", [LEGACY, modern_headers("tools/call", "list_active_plans")], ids=["old", "new"]
)
async def test_refusal_by_http_rate_limit_equals_refusal_by_dispatcher(
    http: httpx2.AsyncClient, flooded: Flooded, headers: dict[str, str]
) -> None:
    flooded.use_up()
    cheap = await http.post("/mcp", headers=headers, content=CALL)
    answer = await flooded.dispatcher.dispatch(flooded.agent.caller, "list_active_plans", {})
    assert cheap.status_code == 200
    assert cheap.headers["retry-after"] == "1"
    result = cheap.json()["result"]
    assert json.loads(result["content"][0]["text"]) == answer.body
    assert ("resultType" in result) == (headers is not LEGACY)


async def test_mcp_messages_other_than_tool_calls_are_rate_limited(
    http: httpx2.AsyncClient,
) -> None:
    replies = [await http.post("/mcp", headers=LEGACY, content=LIST) for _ in range(BURST + 1)]
    assert [reply.status_code for reply in replies] == [200] * BURST + [429]
    refused = replies[-1].json()
    assert refused["id"] == 1
    assert refused["error"]["data"]["error"]["code"] == "RATE_LIMITED"
    assert (await http.post("/mcp", headers={**LEGACY, **THEIRS}, content=LIST)).is_success


async def test_call_over_the_rate_limit_waits_and_is_then_admitted(
    http: httpx2.AsyncClient, flooded: Flooded
) -> None:
    flooded.use_up()
    flooded.meanwhile = flooded.later
    reply = await http.post("/mcp", headers=LEGACY, content=CALL)
    assert not reply.json()["result"]["isError"]
    assert flooded.pauses == [DELAYS[0]]


async def test_org_over_the_rate_limit_does_not_delay_other_callers(
    http: httpx2.AsyncClient, flooded: Flooded
) -> None:
    flooded.use_up()
    served = await http.post("/mcp", headers={**LEGACY, **THEIRS}, content=CALL)
    assert not served.json()["result"]["isError"]
    assert (await http.get("/healthz")).is_success
    assert (await http.get("/readyz")).is_success
    assert (await http.get("/")).is_success
    stranger = await http.post("/mcp", headers={**LEGACY, "x-org": "nobody's"}, content=CALL)
    assert "FORBIDDEN" in stranger.text
    assert flooded.pauses == []


@pytest.mark.parametrize("path", ["/api/runs/x/progress", "/api/documents/x", "/api/outputs/x"])
async def test_read_api_over_rate_limit_returns_429_with_retry_after(
    http: httpx2.AsyncClient, flooded: Flooded, path: str
) -> None:
    flooded.use_up()
    reply = await http.get(path)
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert reply.json()["error"]["code"] == "RATE_LIMITED"
    assert (await http.get(path, headers=THEIRS)).status_code == 404


@pytest.mark.parametrize("path", ["/api/report", "/api/map"])
async def test_report_and_map_endpoints_are_rate_limited(
    http: httpx2.AsyncClient, flooded: Flooded, path: str
) -> None:
    flooded.use_up()
    reply = await http.post(path, content=b"{}")
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
    assert (await http.post(path, content=b"{}", headers=THEIRS)).status_code in {400, 422}


@pytest.mark.parametrize("path", ["/", "/inbox", "/runs", "/audit", "/live/waiting"])
async def test_only_the_org_over_the_rate_limit_gets_429_pages(
    http: httpx2.AsyncClient, flooded: Flooded, path: str
) -> None:
    flooded.use_up(Channel.DASHBOARD)
    page = await http.get(path, headers={"accept": "text/html"})
    assert (page.status_code, page.headers["retry-after"]) == (429, "1")
    assert "Too many requests" in page.text
    assert (await http.get(path, headers={"accept": "text/html", **THEIRS})).is_success


async def test_form_over_rate_limit_returns_429_with_retry_after(
    http: httpx2.AsyncClient, flooded: Flooded
) -> None:
    http.cookies.set(COOKIE, TOKEN)
    sent = {"token": TOKEN, "decision": "approve", "planId": "x", "reviewId": "x"}
    flooded.use_up(Channel.DASHBOARD)
    page = await http.post("/decisions", data=sent, headers={"accept": "text/html"})
    assert (page.status_code, page.headers["retry-after"]) == (429, "1")
    theirs = await http.post("/decisions", data=sent, headers=THEIRS)
    assert theirs.status_code == 404


async def test_page_load_counts_as_a_single_call_for_the_rate_limit(
    http: httpx2.AsyncClient,
) -> None:
    pages = [await http.get("/inbox") for _ in range(BURST + 1)]
    assert [page.status_code for page in pages] == [200] * BURST + [429]


async def test_rate_limit_is_enforced_when_authentication_is_required(world: OrgEnv) -> None:
    issued = await make_token(world.agent)
    services = replace(world.dispatcher.services, rate_limit=TokenBuckets(2, BURST))
    here = replace(world, dispatcher=ServerDispatcher(services, CallLog(services.database)))
    here.dispatcher.clock = lambda: 100 * NANOSECONDS
    async with (
        served(here) as address,
        httpx2.AsyncClient(base_url=address, trust_env=False, headers=bearer(issued)) as client,
    ):
        sent = [await client.post("/mcp", headers=LEGACY, content=CALL) for _ in range(BURST + 1)]
    refused = ["RATE_LIMITED" in reply.text for reply in sent]
    assert refused == [False] * BURST + [True]
    # The server sends the header `retry-after` with its own refusals, but the MCP library does not.
    assert ["retry-after" in reply.headers for reply in sent] == refused


# Tests of delays while a stopping server still finishes its requests (it drains).


NOW = 100 * NANOSECONDS


@dataclass
class RecordedDrain(Drain):
    delays: list[float] = field(default_factory=list)

    async def pause(self, seconds: float) -> None:
        self.delays.append(seconds)


def open_client(world: OrgEnv, drain: Drain, burst: int = 1) -> httpx2.AsyncClient:
    """Return a client of the complete application, which allows bursts of `burst` calls."""
    services = replace(world.dispatcher.services, rate_limit=TokenBuckets(1, burst))
    dispatcher = ServerDispatcher(services, CallLog(services.database))
    dispatcher.clock = lambda: NOW
    settings = Settings(auth="required")
    app = build_http_app(
        make_application(dispatcher, settings), LoadedSettings(settings, {}), drain=drain
    )
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


async def test_draining_server_does_not_delay_refusal_of_unknown_credentials(world: OrgEnv) -> None:
    drain = RecordedDrain()
    async with open_client(world, drain, burst=10 * MAX_FAILURES) as client:
        statuses: list[int] = []
        while 429 not in statuses and len(statuses) < 10 * MAX_FAILURES:
            headers = {**LEGACY, "authorization": f"Bearer unknown-{len(statuses)}"}
            reply = await client.post("/mcp", headers=headers, content=CALL)
            statuses.append(reply.status_code)
    assert (statuses[-1], drain.delays) == (429, [DELAY_SECONDS])


async def test_draining_server_ends_the_delay_of_rate_limited_calls(world: OrgEnv) -> None:
    token, drain = await make_token(world.agent), RecordedDrain()
    async with open_client(world, drain) as client:
        headers = {**LEGACY, **bearer(token)}
        replies = [await client.post("/mcp", headers=headers, content=CALL) for _ in range(2)]
    assert ["RATE_LIMITED" in reply.text for reply in replies] == [False, True]
    assert drain.delays == [DELAYS[0]]
