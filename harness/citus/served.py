"""Agents of two orgs, which call a server on a Citus cluster over HTTP with their tokens."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from embedded_postgres.processes import eventually
from faults.cluster import HOST, free_ports
from fleet.servers import is_ready
from waybook.accounts.model import NewUser
from waybook.app.accounts.members import add_token, add_user
from waybook.app.request.request_context import RequestContext
from waybook.bootstrap import start_application
from waybook.client import Client
from waybook.core.decision_context import Channel, Scope
from waybook.core.org_codes import org_in
from waybook.settings_reading import read_settings
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.queries import new_uuid

SCOPES: Final = (Scope.PLAN_READ, Scope.PLAN_WRITE)
PLANS, STEPS = 4, 3


def serve_two_orgs(url: str) -> str:
    """Let agents of two orgs work through plans over HTTP; return a line for the report.

    Raises:
        AssertionError: a token belongs to the wrong org, or a plan was not completed.
    """
    (port,) = free_ports(["server"]).values()
    tokens = [asyncio.run(make_token(url, new_uuid())) for _ in range(2)]
    with server(url, port):
        eventually(partial(_is_ready, port), "the server is ready")
        asyncio.run(work_together(f"http://{HOST}:{port}", tokens))
    return f"agents of two orgs worked through {2 * PLANS} plans of {STEPS} steps over HTTP"


async def make_token(url: str, org_id: str) -> str:
    """Create an org with a user and a token, as operators do; check the org of the token."""
    add_org(url, UUID(org_id), f"org-{org_id}")
    settings = read_settings({"database_url": url}, {}, Path("/nonexistent")).settings
    async with start_application(settings, sweeping=False) as here:
        caller = replace(here.caller(Channel.CLI), org_id=UUID(org_id))
        call = RequestContext(services=here.dispatcher.services, caller=caller)
        await add_user(call, NewUser(name="ann", scopes=SCOPES))
        secret = (await add_token(call, "ann", "x", SCOPES)).secret
    assert org_in(secret) == UUID(org_id)
    return secret


@contextmanager
def server(url: str, port: int) -> Iterator[None]:
    words = [sys.executable, "-m", "waybook", "serve", "--auth", "required", "--port", str(port)]
    environment = {**os.environ, "WAYBOOK_DATABASE_URL": url}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _is_ready(port: int) -> bool:
    return asyncio.run(is_ready(port))


async def work_together(address: str, tokens: list[str]) -> None:
    """Let one agent per token work, all at the same time."""
    await asyncio.gather(*(work(address, token) for token in tokens))


async def work(address: str, token: str) -> None:
    """Create plans and complete all of their steps; check that each plan is then completed."""
    async with Client(address, token=token) as client:
        for number in range(PLANS):
            steps = [{"stepType": "search", "instructions": "Look."} for _ in range(STEPS)]
            plan = await client.call(
                "create_research_plan",
                name=f"Plan {number}",
                researchQuestion="Which river is longest?",
                steps=steps,
            )
            async for step in client.steps(plan["planId"]):
                async with step:
                    await step.submit("found")
            status = await client.call("get_plan_status", planId=plan["planId"])
            assert status["status"] == "completed", status
