"""Real MCP clients subscribe to changes of plans and runs, over each transport."""

import asyncio

import mcp_types as wire
import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import Subscription
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from org_env import OrgEnv
from patience import PATIENCE_SECONDS
from transport.full_app import free_port, gateway_of
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

#: Ignore a warning of the MCP library: older clients still use this kind of subscription, although
#: the newest protocol revision has replaced it.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


async def heard(subscription: Subscription, *expected: object) -> None:
    """Wait until each of these events has arrived; fail if another event arrives."""
    left = set(expected)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while left:
            event = await anext(subscription)
            assert event in expected
            left.discard(event)


async def test_newest_client_is_notified_only_of_subscribed_resources(world: OrgEnv) -> None:
    agent = world.agent
    plan, other = await agent.plan(2), await agent.plan(2)
    run = await agent.run()
    theirs = f"waybook://plans/{world.other_org_plan['planId']}"
    ours, its_map = (f"waybook://plans/{plan['planId']}{end}" for end in ("", "/map"))
    progress = f"waybook://runs/{run['runId']}/progress"
    uris = [ours, its_map, progress, theirs]
    async with (
        free_port(world.agent) as address,
        Client(f"{address}/mcp", mode="2026-07-28") as client,
    ):
        async with client.listen(resource_subscriptions=uris) as subscription:
            await agent.take(other)
            world.other_org_may_change = True
            await world.other_org.take(world.other_org_plan)
            step = await agent.take(plan)
            await heard(subscription, ResourceUpdated(ours), ResourceUpdated(its_map))
            await agent.job(run)
            await heard(subscription, ResourceUpdated(progress))
            await agent.submit(step)
            await heard(subscription, ResourceUpdated(ours), ResourceUpdated(its_map))
        async with client.listen(resources_list_changed=True) as subscription:
            await agent.plan(1)
            await heard(subscription, ResourcesListChanged())
    assert world.dispatcher.bus.subscribed_orgs() == []


async def test_subscription_stream_ends_when_server_stops(world: OrgEnv) -> None:
    plan = await world.agent.plan(1)
    stopped = asyncio.Event()

    async def follow(address: str, opened: asyncio.Event) -> None:
        uri = f"waybook://plans/{plan['planId']}"
        async with Client(f"{address}/mcp", mode="2026-07-28") as client:
            async with client.listen(resource_subscriptions=[uri]) as subscription:
                opened.set()
                async for _ in subscription:
                    pass
            stopped.set()

    async with asyncio.timeout(PATIENCE_SECONDS):
        async with free_port(world.agent) as address:
            opened = asyncio.Event()
            following = asyncio.create_task(follow(address, opened))
            await opened.wait()
        await stopped.wait()
        await following


async def test_legacy_http_client_cannot_subscribe_to_resources(world: OrgEnv) -> None:
    async with free_port(world.agent) as address, Client(f"{address}/mcp", mode="legacy") as client:
        assert client.server_capabilities.resources is not None
        assert not client.server_capabilities.resources.subscribe
        with pytest.raises(MCPError):
            await client.session.subscribe_resource("waybook://plans/1")


async def test_older_mcp_client_on_a_persistent_connection_gets_plan_updates(world: OrgEnv) -> None:
    plan, other = await world.agent.plan(2), await world.agent.plan(2)
    uri, elsewhere = (f"waybook://plans/{p['planId']}" for p in (plan, other))
    updated: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: object) -> None:
        if isinstance(message, wire.ResourceUpdatedNotification):
            await updated.put(str(message.params.uri))

    server = build_server(
        published_tools(), gateway_of(world.agent), profile="all", is_persistent=True
    )
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        Client(server, mode="legacy", message_handler=hear) as client,
    ):
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        await client.session.subscribe_resource(uri)
        await client.session.subscribe_resource(elsewhere)
        await client.session.unsubscribe_resource(elsewhere)
        await world.agent.take(other)
        step = await world.agent.take(plan)
        assert await updated.get() == uri
        await world.agent.submit(step)
        assert await updated.get() == uri
        with pytest.raises(MCPError) as refusal:
            await client.session.subscribe_resource("waybook://outputs/1")
        assert refusal.value.code == -32602
