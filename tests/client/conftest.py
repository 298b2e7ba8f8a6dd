"""Fixtures of the client tests, with a real HTTP server and a real database."""

from collections.abc import AsyncIterator

import pytest

from org_env import AgentClient, OrgEnv
from transport.full_app import free_port


@pytest.fixture
def world(alone: OrgEnv) -> OrgEnv:
    """Yield an environment on PostgreSQL 18; the client does not depend on the version."""
    return alone


@pytest.fixture
async def address(agent: AgentClient) -> AsyncIterator[str]:
    async with free_port(agent) as where:
        yield where
