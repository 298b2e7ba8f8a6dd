"""Test environments with webhooks: a local receiver, and an application that sends to it."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fake_endpoint import EndpointServer, Play, ReceivedRequest, answer, fake_endpoint
from org_env import AgentClient, Body, OrgEnv
from waybook.app.operations.delivery import deliver_notifications
from waybook.app.queries.usage import list_deliveries
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import OrgSignal, Services
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Channel
from waybook.core.events import NotificationKind
from waybook.integrations.config import WebhookSettings
from waybook.integrations.webhooks import Webhook
from waybook.notifications.delivery import parse_secrets
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Row

KEY = b"twenty-four bytes and more"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
EVERY_EVENT = frozenset(str(o) for o in NotificationKind if o is not NotificationKind.TEST)
TAKEN = answer("", 204)
#: Timeout in seconds for a receiver that does not answer, long enough for a request to arrive.
SHORT = 1.0
PLENTY = 20.0


def verified(request: ReceivedRequest, key: bytes = KEY) -> Body:
    headers = request.headers
    signed = b".".join(
        [headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), request.raw]
    )
    ours = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert f"v1,{ours}" in headers["webhook-signature"].split(" ")
    payload: Body = request.body
    return payload


@dataclass
class WebhookEnv:
    services: Services
    agent: AgentClient

    @property
    def call(self) -> RequestContext:
        caller = Caller(org_id=self.agent.org_id, user="waybook", channel=Channel.SWEEP)
        return RequestContext(services=self.services, caller=caller)

    async def deliver(self) -> int:
        tried = 0
        while count := await deliver_notifications(self.call):
            tried += count
        return tried

    async def deliveries(self) -> list[Row]:
        return await list_deliveries(self.call, limit=1000)


@asynccontextmanager
async def make_webhook_env(  # noqa: PLR0913 - each argument is used by a test
    world: OrgEnv,
    url: str,
    *,
    agent: AgentClient | None = None,
    form: str = "standard",
    events: frozenset[str] = EVERY_EVENT,
    seconds: float = PLENTY,
    secrets: str = SECRET,
    folder: Path | None = None,
    database: Database | None = None,
) -> AsyncIterator[WebhookEnv]:
    """Yield an environment that sends the notifications of `world` to this URL."""
    configured = WebhookSettings(
        url=url, secrets=parse_secrets(secrets), format=form, events=events, templates_dir=folder
    )
    sender = Webhook(configured, seconds=seconds)
    # Create the HTTP client now, so that the timeout of a request does not include this.
    await sender._exchange._client()
    services = replace(
        world.dispatcher.services,
        database=database or world.database,
        notification_events=events,
        webhook_sender=sender,
        delivery_requested=OrgSignal(),
    )
    who = agent or world.agent
    try:
        yield WebhookEnv(
            services, AgentClient(ServerDispatcher(services, world.dispatcher.calls), who.caller)
        )
    finally:
        await sender.close()


@asynccontextmanager
async def received_events(
    world: OrgEnv, *plays: Play, form: str = "standard", seconds: float = PLENTY
) -> AsyncIterator[tuple[EndpointServer, WebhookEnv]]:
    """Yield a webhook receiver with scripted behaviors, and an environment that sends to it."""
    async with (
        fake_endpoint(*(plays or (TAKEN,))) as other,
        make_webhook_env(world, f"{other.url}/hook", form=form, seconds=seconds) as teller,
    ):
        yield other, teller


async def make_review(agent: AgentClient) -> Body:
    """Create a plan with a review of a result; notifications must not contain the result."""
    plan = await agent.plan([{"stepType": "search", "instructions": "Look.", "title": "Measure"}])
    step = await agent.take(plan)
    return await agent.call(
        "request_user_review",
        stepId=step["stepId"],
        summary="The Nile,\nprobably.",
        questions=["Is it?"],
        resultSummary="6,650 km",
    )


async def events(teller: WebhookEnv) -> list[str]:
    return [delivery.event for delivery in reversed(await teller.deliveries())]
