"""The complete HTTP application, its routes, and sample records to request from it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from foreign_records import make_feedback_link, make_review_link, make_snapshot_link
from org_env import AgentClient
from run_calls import make_gathering
from tool_calls import valid_call
from waybook.app.request.caller import Caller
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.background import render_all_orgs
from waybook.core.decision_context import Channel
from waybook.transport.gateway import ToolGateway
from waybook.transport.http.app import AllowedHosts, RequestPipeline, build_app
from waybook.transport.http.dashboard.routes import dashboard_routes
from waybook.transport.http.html.layout import COOKIE
from waybook.transport.http.metrics import collect_metrics
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.server import listen, serve_in_background
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

TOKEN = "t" * 43


def full_app(
    agent: AgentClient, hosts: AllowedHosts | None = None, profile: str = "all"
) -> ASGIApp:
    mcp, rest, pages = (gateway_of(agent, channel) for channel in FACES)
    return build_app(
        build_server(published_tools(), mcp, profile=profile),
        hosts=hosts or AllowedHosts(),
        ready=mcp.is_ready,
        metrics=partial(collect_metrics, agent.dispatcher),
        reading=ReadApi(rest),
        pages=dashboard_routes(agent.dispatcher, pages.caller),
    )


FACES = (Channel.MCP, Channel.REST, Channel.DASHBOARD)


def gateway_of(
    agent: AgentClient, channel: Channel = Channel.MCP, user: str | None = None
) -> ToolGateway:
    async def dispatcher() -> ServerDispatcher:
        return agent.dispatcher

    async def caller(_: Request | None) -> Caller:
        return replace(agent.caller, channel=channel, user=user or agent.caller.user)

    return ToolGateway(dispatcher, caller)


@asynccontextmanager
async def make_client(app: ASGIApp) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield an HTTP client that has the CSRF cookie and does not follow redirects."""
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://localhost",
        cookies={COOKIE: TOKEN},
    ) as client:
        yield client


@asynccontextmanager
async def free_port(agent: AgentClient, profile: str = "all") -> AsyncIterator[str]:
    async with serve_in_background(
        full_app(agent, profile=profile), listen("127.0.0.1", 0), agent.dispatcher.bus.close
    ) as where:
        yield where


def routes_of(app: ASGIApp) -> list[Route]:
    """Return the routes of the application, without its middleware."""
    inner = app.app if isinstance(app, RequestPipeline) else app
    assert isinstance(inner, Starlette)
    routes = [route for route in inner.routes if isinstance(route, Route)]
    assert len(routes) == len(inner.routes)
    return routes


async def sample_ids(agent: AgentClient) -> dict[str, str]:
    """Create sample records; return the value of each URL parameter by the parameter's name."""
    plan = await agent.plan()
    job = await make_gathering(agent)
    of_stage = {"stage_secret": await make_feedback_link(agent)}
    await render_all_orgs(agent.dispatcher.services)
    shown = (await agent.progress(job))["stages"][0]["documents"][0]["resourceId"]
    written = await valid_call(agent, "store_research_output")
    stored = await agent.call("store_research_output", **written)
    named = {"plan_id": plan["planId"], "step_id": plan["stepIds"][0], "run_id": job["runId"]}
    named["subject_id"] = plan["stepIds"][0]
    worked = {"job_id": job["jobId"], "stage": job["stageSlug"], "step_key": job["stepKey"]}
    note = await agent.call("store_research", kind="note", title="Nile", content="It is long.")
    kept = {"output_id": stored["outputId"], "research_id": note["artifactId"]}
    linked = {"secret": await make_review_link(agent), "decision": "approve", **of_stage}
    linked["snapshot"] = (await make_snapshot_link(agent))[1]
    return {**named, **worked, **linked, "resource_id": shown, **kept}
