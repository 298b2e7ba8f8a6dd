"""Shared fixtures of the transport tests."""

from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from org_env import OrgEnv
from transport.fake_dispatcher import always, make_server, serve
from transport.page_client import make_browser
from waybook.transport.http.app import AllowedHosts, build_app
from waybook.transport.http.metrics import Metric

CALLS = Metric(name="waybook_calls_total", value=3)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "conformance: runs the official MCP suite or schema validators"
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address() -> AsyncIterator[str]:
    """Yield the address of a server that all tests of the file use."""
    server = make_server(profile="all")
    hosts = AllowedHosts(frozenset({"plans.example.org", "plans.example.org:8443"}))
    app = build_app(server, hosts=hosts, ready=always, metrics=lambda: [CALLS])
    async with serve(app) as where:
        yield where


@pytest.fixture
async def browser(world: OrgEnv) -> AsyncIterator[httpx2.AsyncClient]:
    async with make_browser(world.agent) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
        yield client
