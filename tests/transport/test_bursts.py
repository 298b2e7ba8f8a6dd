"""Bursts of requests, and requests during a database outage."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from auth_env import at, authenticated_app, bearer, make_token, open_visitor
from database_fixtures import ON_POSTGRES_18
from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from transport.messages import LEGACY, make_request
from waybook.app.accounts.members import revoke_token
from waybook.app.request import arguments
from waybook.app.request.caller import Answer, Caller
from waybook.app.request.rate_limit import TokenBuckets
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.json_check import check_json
from waybook.store.calls import CallLog
from waybook.transport.http.rate_limits import BODY_BYTES_PER_CALL, DELAYS

pytestmark = ON_POSTGRES_18

#: Number of calls in a burst, which is more than may wait for a database connection.
HERD = 500
CALL = make_request("tools/call", name="list_active_plans", arguments={})
LIST = make_request("tools/list")


@asynccontextmanager
async def limited_visitor(
    world: OrgEnv, limit: TokenBuckets, kind: type[ServerDispatcher] = ServerDispatcher
) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield an HTTP client without credentials, for an application with this rate limit."""
    services = replace(world.dispatcher.services, rate_limit=limit)
    here = replace(world, dispatcher=kind(services, CallLog(services.database)))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(authenticated_app(here)),
        base_url="http://localhost",
        timeout=PATIENCE_SECONDS,
    ) as client:
        yield client


def outcome_of(reply: httpx2.Response) -> str:
    if reply.status_code != 200:
        return str(reply.status_code)
    result = reply.json()["result"]
    body = json.loads(result["content"][0]["text"])
    return str(body["error"]["code"]) if result.get("isError") else "ok"


async def test_burst_of_calls_with_the_same_token_shares_token_lookups(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = 0
    read = world.database.read_by_secret

    async def recorded(*statements: Any, **named: Any) -> Any:  # noqa: ANN401 - any type
        nonlocal lookups
        lookups += 1
        return await read(*statements, **named)

    monkeypatch.setattr(world.database, "read_by_secret", recorded)
    headers = LEGACY | bearer(await make_token(world.agent))
    async with limited_visitor(world, TokenBuckets(HERD, HERD)) as http:
        posts = [http.post("/mcp", headers=headers, content=CALL) for _ in range(HERD)]
        replies = await asyncio.gather(*posts)
    assert Counter(map(outcome_of, replies)) == {"ok": HERD}
    assert lookups < 5


async def test_request_after_token_revocation_starts_a_new_token_lookup(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, has_read, may_answer = world.database.read_by_secret, asyncio.Event(), asyncio.Event()

    async def answer_late(*statements: Any, **named: Any) -> Any:  # noqa: ANN401 - any type
        rows = await read(*statements, **named)
        has_read.set()
        await may_answer.wait()
        return rows

    monkeypatch.setattr(world.database, "read_by_secret", answer_late)
    issued = await make_token(world.agent, "bea")
    async with open_visitor(world) as http:
        read_api = "/api/plans/x/outputs"
        before = asyncio.create_task(http.get(read_api, headers=bearer(issued)))
        await has_read.wait()
        await revoke_token(at(world.agent), issued.token.id)
        after = asyncio.create_task(http.get(read_api, headers=bearer(issued)))
        may_answer.set()
        assert (await before).status_code == 404
        assert (await after).status_code == 401


def make_unavailable(world: OrgEnv) -> None:
    """Close all database connections for the rest of the test, as in an outage."""
    world.is_sound = False  # The audit cannot be checked after the test.
    world.database.close()


@pytest.mark.parametrize(("message", "status"), [(CALL, 200), (LIST, 503)], ids=["call", "list"])
async def test_mcp_request_during_a_database_outage_gets_unavailable_error(
    world: OrgEnv, message: bytes, status: int
) -> None:
    headers = LEGACY | bearer(await make_token(world.agent))
    async with open_visitor(world) as http:
        make_unavailable(world)
        reply = await http.post("/mcp", headers=headers, content=message)
    assert (reply.status_code, reply.json()["id"]) == (status, 1)
    assert "UNAVAILABLE" in reply.text
    assert reply.headers["retry-after"] == "5"


@pytest.mark.parametrize("path", ["/api/plans/x/outputs", "/readyz"])
async def test_unavailable_server_says_when_to_retry(world: OrgEnv, path: str) -> None:
    headers = bearer(await make_token(world.agent))
    async with open_visitor(world) as http:
        make_unavailable(world)
        reply = await http.get(path, headers=headers)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")


class RecordingDispatcher(ServerDispatcher):
    delays: list[float]

    async def dispatch(self, caller: Caller, tool_name: str, arguments: Any) -> Answer:  # noqa: ANN401 - any type
        self.delays.append(caller.hooks.delay_seconds)
        return await super().dispatch(caller, tool_name, arguments)


async def test_recorded_delay_of_a_call_includes_the_rate_limit_delay(world: OrgEnv) -> None:
    RecordingDispatcher.delays = []
    headers = LEGACY | bearer(await make_token(world.agent, "cleo"))
    # The second call exceeds the rate limit, so it is delayed.
    async with limited_visitor(world, TokenBuckets(10, 1), RecordingDispatcher) as http:
        for _ in range(2):
            await http.post("/mcp", headers=headers, content=CALL)
    assert RecordingDispatcher.delays[1] > 0.9 * DELAYS[0]


async def in_parts(body: bytes) -> AsyncIterator[bytes]:
    yield body


@pytest.mark.parametrize("form", ["declared", "chunked"])
async def test_large_body_counts_as_several_calls_for_the_rate_limit(
    world: OrgEnv, form: str
) -> None:
    headers = LEGACY | bearer(await make_token(world.agent))
    large = {"x": "y" * 100 * BODY_BYTES_PER_CALL}
    body = make_request("tools/call", name="list_active_plans", arguments=large)
    async with limited_visitor(world, TokenBuckets(1, 50)) as http:
        sent = [body if form == "declared" else in_parts(body), CALL, CALL[:-1] + b" " * len(body)]
        replies = [await http.post("/mcp", headers=headers, content=content) for content in sent]
    assert [*map(outcome_of, replies[:2])] == ["INVALID_INPUT", "RATE_LIMITED"]
    # The third body is not valid JSON, but the status is 429: the server refused the call without
    # parsing its body.
    assert (replies[2].status_code, replies[2].json()["id"]) == (429, 1)


async def test_requests_without_sign_in_share_a_rate_limit(world: OrgEnv) -> None:
    headers = LEGACY | bearer(await make_token(world.agent))
    async with limited_visitor(world, TokenBuckets(1, 3)) as http:
        paths = ["/sign-in", "/plans", "/mcp", "/.well-known/x", "/healthz", "/static/x"]
        replies = [await http.get(path) for path in paths]
        assert [reply.status_code for reply in replies] == [200, 401, 401, 429, 200, 404]
        assert replies[3].headers["retry-after"] == "1"
        assert outcome_of(await http.post("/mcp", headers=headers, content=CALL)) == "ok"


async def test_large_arguments_are_checked_in_another_thread(
    world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set[int]()

    def recorded(value: object, depth: int = 0) -> int:
        threads.add(threading.get_ident())
        return check_json(value, depth)

    monkeypatch.setattr(arguments, "check_json", recorded)
    taken = await world.agent.take(await world.agent.plan(1))
    result = [{"river": "Nile", "source": "an atlas"}] * 10_000
    values = {"stepId": taken["stepId"], "attempt": 1, "resultSummary": result}
    answer = await world.agent.ask("submit_step_result", values)
    error: Any = answer.body["error"]
    assert error["code"] == "TOO_LARGE"
    assert threads
    assert threading.get_ident() not in threads
