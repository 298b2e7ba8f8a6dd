"""Webhook messages of killed processes: none is lost, and none is about an uncommitted change."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from acceptance.crashing_process import crashing_process, read_marker
from fake_endpoint import fake_endpoint
from org_env import Body, FakeClock, OrgEnv
from preloaded_process import PreloadedProcess
from waybook.app.operations.delivery import LEASE
from waybook.notifications.delivery import DeliveryStatus
from webhook_env import SECRET, TAKEN, make_webhook_env, received_events, verified

#: Script that completes a plan or delivers notifications, and stops at a given point. It prints
#: where it stopped, and waits to be killed.
TELLER = """
import asyncio, json, sys
from datetime import datetime
from uuid import UUID
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Channel
from waybook.integrations.webhooks import Webhook
from waybook.integrations.config import WebhookSettings
from waybook.notifications.delivery import (parse_secrets)
from waybook.store.calls import CallLog
from waybook.store.driver.database import ConnectionPool, Database, Transaction
from waybook.app.request.request_context import RequestContext
from waybook.app.operations.delivery import deliver_notifications
from waybook.app.request.caller import Caller
from waybook.app.request.services import Services

dsn, role, org, now, url, secret, moment, arguments = sys.argv[1:]
commit = Transaction.commit


def say(word):
    print(word, flush=True)
    sys.stdin.read()


async def stopping(tx, *statements):
    texts = [str(statement) for statement in statements]
    told = any(text.startswith("insert into webhook_delivery") for text in texts)
    noted = any(text.startswith("update webhook_delivery") for text in texts)
    if told and moment == "before the commit":
        await tx.send(*statements)
        say("written")
    if noted and moment == "before the note":
        say("delivered")
    answer = await commit(tx, *statements)
    if told and moment == "after the commit":
        say("committed")
    return answer


async def main():
    Transaction.commit = stopping
    events = frozenset({"plan.completed"})
    webhook = Webhook(
        WebhookSettings(url=url, secrets=parse_secrets(secret), format="standard", events=events,
                        templates_dir=None)
    )
    database = Database(ConnectionPool(dsn), role=role or None)
    database.frozen_now = datetime.fromisoformat(now)
    services = Services(database=database, notification_events=events, webhook_sender=webhook)
    caller = Caller(org_id=UUID(org), user="ann", channel=Channel.MCP)
    if moment == "before the note":
        await deliver_notifications(RequestContext(services=services, caller=caller))
    else:
        dispatcher = ServerDispatcher(services, CallLog(database))
        await dispatcher.dispatch(caller, "submit_step_result", json.loads(arguments))


asyncio.run(main())
"""


@contextmanager
def open_process(
    world: OrgEnv, url: str, moment: str, **arguments: object
) -> Iterator[PreloadedProcess]:
    """Start a process that sends notifications and stops at `moment`; kill it at the end."""
    place = world.place
    named = [place.app_dsn, place.server.role or "", str(world.agent.org_id)]
    rest = [world.clock.now.isoformat(), url, SECRET, moment, json.dumps(arguments)]
    with crashing_process(TELLER, *named, *rest) as process:
        yield process


async def last_step(world: OrgEnv) -> Body:
    """Create a plan with one step, claim the step, and return arguments that complete it."""
    step = await world.agent.take(await world.agent.plan(1))
    return {"stepId": step["stepId"], "attempt": 1, "resultSummary": "found"}


async def test_process_killed_before_commit_sends_no_webhook(world: OrgEnv) -> None:
    async with received_events(world) as (other, teller):
        with open_process(
            world, other.url, "before the commit", **await last_step(world)
        ) as process:
            assert await read_marker(process) == "written"
        assert await teller.deliver() == 0
        assert await teller.deliveries() == []
        assert other.requests == []


async def test_other_process_delivers_webhook_if_sender_is_killed_after_commit(
    world: OrgEnv,
) -> None:
    async with received_events(world) as (other, teller):
        with open_process(
            world, other.url, "after the commit", **await last_step(world)
        ) as process:
            assert await read_marker(process) == "committed"
        assert other.requests == []
        assert await teller.deliver() == 1
        assert [verified(request)["type"] for request in other.requests] == ["plan.completed"]


async def test_webhook_is_resent_with_same_id_after_sender_was_killed(
    world: OrgEnv, clock: FakeClock
) -> None:
    async with fake_endpoint(TAKEN) as other, make_webhook_env(world, other.url) as teller:
        await teller.agent.call("submit_step_result", **await last_step(world))
        with open_process(world, other.url, "before the note") as process:
            assert await read_marker(process) == "delivered"
        assert len(other.requests) == 1
        assert await teller.deliver() == 0
        clock.advance(seconds=LEASE.total_seconds())
        assert await teller.deliver() == 1
        first, second = other.requests
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
        assert verified(first) == verified(second)
        (settled,) = await teller.deliveries()
    assert (settled.status, settled.attempt) == (DeliveryStatus.DELIVERED, 2)
