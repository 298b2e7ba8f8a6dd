"""Fixtures of the client tests: an HTTP server with a real database."""

from collections.abc import AsyncIterator

import pytest

from org_env import AgentClient, OrgEnv, make_env
from postgres_servers import ServerDatabase
from transport.full_app import free_port


@pytest.fixture
async def world(module_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(module_place) as made:
        yield made


@pytest.fixture
def agent(world: OrgEnv) -> AgentClient:
    """Return an agent that calls tools without the client, as another program would."""
    return world.agent


@pytest.fixture
async def address(agent: AgentClient) -> AsyncIterator[str]:
    """Yield the address of a server that serves the agent's org."""
    async with free_port(agent) as where:
        yield where
