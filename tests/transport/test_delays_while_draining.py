"""Delayed requests of the complete application: the beginning of the draining ends the delay."""

from dataclasses import dataclass, field, replace

import httpx2

from auth_env import bearer, make_token
from database_fixtures import ON_POSTGRES_18
from org_env import OrgEnv, make_application
from transport.messages import LEGACY, make_request
from waybook.app.request.rate_limit import NANOSECONDS, TokenBuckets
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.cli.commands.serve import build_http_app
from waybook.settings import LoadedSettings, Settings
from waybook.store.calls import CallLog
from waybook.transport.http.rate_limits import DELAY_SECONDS, DELAYS, MAX_FAILURES
from waybook.transport.http.server import Drain

pytestmark = ON_POSTGRES_18

CALL = make_request("tools/call", name="list_active_plans", arguments={})
NOW = 100 * NANOSECONDS


@dataclass
class RecordedDrain(Drain):
    delays: list[float] = field(default_factory=list)

    async def pause(self, seconds: float) -> None:
        self.delays.append(seconds)


def open_client(world: OrgEnv, drain: Drain, burst: int = 1) -> httpx2.AsyncClient:
    """Return a client of the complete application, which admits `burst` calls at once."""
    services = replace(world.dispatcher.services, rate_limit=TokenBuckets(1, burst))
    dispatcher = ServerDispatcher(services, CallLog(services.database))
    dispatcher.clock = lambda: NOW
    settings = Settings(auth="required")
    app = build_http_app(
        make_application(dispatcher, settings), LoadedSettings(settings, {}), drain=drain
    )
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


async def test_draining_server_ends_the_delay_after_unknown_credentials(world: OrgEnv) -> None:
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
