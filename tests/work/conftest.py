"""Fixtures of the tests of workers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from org_env import AgentClient, OrgEnv
from transport.full_app import free_port
from work_env import Place


@pytest.fixture
def world(alone: OrgEnv) -> OrgEnv:
    """Yield an environment on PostgreSQL 18; workers do not depend on the version."""
    return alone


@pytest.fixture
async def place(agent: AgentClient, tmp_path: Path) -> AsyncIterator[Place]:
    """Yield a place with a server that lists only the tools for agents, as servers do."""
    async with free_port(agent, "auto") as address:
        yield Place(address, tmp_path)
