"""Messages with action links, and the pages that the links open without sign-in."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx2

from auth_env import authenticated_app, make_token
from fake_endpoint import fake_endpoint
from org_env import AgentClient, Body, OrgEnv
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Scope
from waybook.notifications.delivery import ActionLinks
from webhook_env import KEY, TAKEN, WebhookEnv, make_webhook_env, verified

HTML = {"accept": "text/html"}
LINKS = ActionLinks(key=KEY, reviewer="rita", lifetime=timedelta(days=7), needs_account=True)


@dataclass(frozen=True, slots=True)
class LinkedMessage:
    """Message with action links that was sent by webhook, and a browser without a session."""

    env: WebhookEnv
    #: Reply to the call that caused the message.
    cause: Body
    payload: dict[str, Any]
    client: httpx2.AsyncClient


@asynccontextmanager
async def linked_message(
    world: OrgEnv, may: tuple[Scope, ...], make: Callable[[AgentClient], Awaitable[Body]]
) -> AsyncIterator[LinkedMessage]:
    """Call `make`, and yield the message that it causes; the links act as Rita, who has `may`."""
    await make_token(world.agent, "rita", may=may, scopes=(Scope.PLAN_READ,))
    async with fake_endpoint(TAKEN) as other, make_webhook_env(world, f"{other.url}/hook") as env:
        env.services = replace(env.services, action_links=LINKS)
        env.agent.dispatcher = ServerDispatcher(env.services, world.dispatcher.calls)
        cause = await make(env.agent)
        await env.deliver()
        payload = verified(other.requests[-1])
        app = authenticated_app(world)
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield LinkedMessage(env, cause, payload, client)
