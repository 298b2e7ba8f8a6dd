"""Real MCP and HTTP clients use the complete application with a real database."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Literal, cast

import httpx2
import pytest
import pytest_asyncio
from mcp import Client
from mcp_types import CallToolResult, TextContent, TextResourceContents
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from embedded_postgres.data_directories import make_data_directory
from org_env import Body
from patience import PATIENCE_SECONDS
from run_place import run_directory
from transport.messages import LEGACY
from waybook.app.registry import TOOLS
from waybook.bootstrap import start_application
from waybook.cli.operator.serve import build_gateway
from waybook.core.decision_context import Channel
from waybook.integrations.open_telemetry import OpenTelemetryTracer
from waybook.settings import Settings
from waybook.tracing import TRACING
from waybook.transport.http.app import AllowedHosts, build_app
from waybook.transport.http.metrics import collect_metrics
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.server import listen, serve_in_background
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.tools import published_tools

pytestmark = pytest.mark.asyncio(loop_scope="module")

Era = Literal["legacy", "2026-07-28"]
BOTH_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])

PLAN = {
    "name": "Tides",
    "researchQuestion": "Why are there two tides a day?",
    "steps": '[{"stepType":"search","instructions":"Find out."}]',
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address() -> AsyncIterator[str]:
    with make_data_directory(parent=run_directory()) as place:
        settings = Settings(data_dir=place / "data")
        async with start_application(settings) as system:
            gateway = build_gateway(system)
            server = build_server(published_tools(), gateway, profile="all")
            app = build_app(
                server,
                hosts=AllowedHosts(),
                ready=gateway.is_ready,
                metrics=partial(collect_metrics, system.dispatcher),
                reading=ReadApi(build_gateway(system, Channel.REST)),
            )
            async with serve_in_background(app, listen("127.0.0.1", 0)) as where:
                yield where


def error_of(result: CallToolResult) -> dict[str, object]:
    """Return the error in the result of a tool, which must contain nothing else."""
    assert result.is_error
    assert result.structured_content is None
    [block] = result.content
    assert isinstance(block, TextContent)
    body = json.loads(block.text)
    assert block.text == json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    assert set(body["error"]) == {"code", "message", "details", "next"}
    return dict(body["error"])


@BOTH_ERAS
async def test_mcp_client_creates_and_completes_a_plan(address: str, era: Era) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        plan = (await client.call_tool("create_research_plan", dict(PLAN))).structured_content
        assert plan is not None
        listed = {
            found.uri: found.description for found in (await client.list_resources()).resources
        }
        assert listed[f"waybook://plans/{plan['planId']}"] == "Ready, 0 % done"
        read = await client.read_resource(f"waybook://plans/{plan['planId']}")
        assert "Why are there two tides a day?" in read.model_dump_json()
        step = (
            await client.call_tool("get_next_step", {"planId": plan["planId"]})
        ).structured_content
        assert step is not None
        submitted = await client.call_tool(
            "submit_step_result",
            {"stepId": step["stepId"], "attempt": step["attempt"], "resultSummary": "The moon."},
        )
        assert submitted.structured_content is not None
        assert submitted.structured_content["planStatus"] == "completed"


#: Tools that take exactly one of several arguments.
AMBIGUOUS_NAMES = {"get_dag_map", "get_run_progress", "get_artifact", "draw_map"}
#: The scope is checked first, and agents on this machine do not have it.
NEEDS_REVIEW_SCOPE = {"decide_cap"}


@BOTH_ERAS
async def test_error_for_unknown_argument_of_any_tool_names_the_argument(
    address: str, era: Era
) -> None:
    async with Client(f"{address}/mcp", mode=era) as client:
        for name, tool in TOOLS.items():
            result = await client.call_tool(name, {"noSuchArgument": 1})
            error = error_of(result)
            if name in NEEDS_REVIEW_SCOPE:
                assert error["code"] == "FORBIDDEN", name
                continue
            assert error["code"] == "INVALID_INPUT", name
            assert "noSuchArgument" in str(error["message"]) + str(error["details"]), name
            if not tool.input_schema.get("required") and name not in AMBIGUOUS_NAMES:
                assert not (await client.call_tool(name, {})).is_error, name


async def test_list_of_prompts_includes_every_listed_skill(address: str) -> None:
    async with Client(f"{address}/mcp") as client:
        skills = (await client.call_tool("list_skills", {})).structured_content
        prompts = [entry.name for entry in (await client.list_prompts()).prompts]
    assert skills is not None
    ours = ["resume_plan", "plan_research", "work_on_run"]
    assert prompts == [*ours, *(entry["name"] for entry in skills["skills"])]


async def called(client: Client, tool: str, **arguments: object) -> Body:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return cast("Body", result.structured_content)


@BOTH_ERAS
async def test_run_executed_over_mcp_is_readable_over_rest(address: str, era: Era) -> None:
    named = {"dagSlug": "deep-research", "name": "Tides", "input": "Why two a day?"}
    async with (
        Client(f"{address}/mcp", mode=era) as client,
        httpx2.AsyncClient(base_url=address, trust_env=False) as http,
    ):
        run_id = (await called(client, "start_run", **named, models=["a"]))["runId"]
        job = await called(client, "get_next_job", runId=run_id)
        held = {"jobId": job["jobId"], "attempt": job["attempt"]}
        await called(client, "submit_job_result", **held, documents=[{"content": "# The moon"}])
        progress = f"waybook://runs/{run_id}/progress"
        assert progress in {resource.uri for resource in (await client.list_resources()).resources}
        document = await first_document(http, run_id)
        report = (await http.get(f"/api/runs/{run_id}/progress")).json()
        [attached] = (await client.read_resource(progress)).contents
        [mapped] = (await client.read_resource(f"waybook://runs/{run_id}/map")).contents
        [text] = (await client.read_resource(f"waybook://documents/{document}")).contents
        page = await http.get(f"/api/documents/{document}")
    assert isinstance(attached, TextResourceContents)
    payload = json.loads(attached.text)
    for name in ("dagProgress", "status", "awaitingFeedback", "progress"):
        assert payload[name] == report[name]
    assert payload["stages"][0]["documents"] == report["stages"][0]["documents"]
    assert isinstance(mapped, TextResourceContents)
    assert len(json.loads(mapped.text)["stages"]) == 3
    assert isinstance(text, TextResourceContents)
    assert text.text.startswith("# The moon")
    assert "<h1>The moon</h1>" in page.text


async def first_document(http: httpx2.AsyncClient, run_id: str) -> str:
    """Wait until the first document of the run is rendered; return its id."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            report = (await http.get(f"/api/runs/{run_id}/progress")).json()
            documents = report["stages"][0]["documents"]
            if documents:
                return str(documents[0]["resourceId"])


async def test_readyz_reports_ready_when_database_answers(address: str) -> None:
    async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
        assert (await client.get("/readyz")).json() == {"status": "ready"}


async def test_metrics_count_calls_by_tool_and_outcome(address: str) -> None:
    async with Client(f"{address}/mcp") as client, httpx2.AsyncClient() as http:
        await client.call_tool("get_plan_status", {"planId": "unknown"})
        metrics = (await http.get(f"{address}/metrics")).text
    assert 'waybook_calls_total{tool="get_plan_status",outcome="NOT_FOUND"}' in metrics
    assert "waybook_call_log_dropped_total 0" in metrics


TRACES = {
    "header": ("0af7651916cd43dd8448eb211c80319c", "list_active_plans"),
    "metadata": ("1af7651916cd43dd8448eb211c80319c", "list_active_plans"),
    "metadata through the library": ("2af7651916cd43dd8448eb211c80319c", "request_user_review"),
    "header through the library": ("3af7651916cd43dd8448eb211c80319c", "request_user_review"),
}


@pytest.mark.parametrize("case", TRACES)
async def test_call_continues_the_trace_of_the_client(address: str, case: str) -> None:
    trace_id, tool = TRACES[case]
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    parent = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    headers, meta = ({}, parent) if case.startswith("metadata") else (parent, {})
    params = {"name": tool, "arguments": {"stepId": "nowhere"}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    TRACING.tracer = OpenTelemetryTracer(provider.get_tracer("test"))
    try:
        async with httpx2.AsyncClient(base_url=address, trust_env=False) as client:
            reply = await client.post("/mcp", headers={**LEGACY, **headers}, json=message)
    finally:
        TRACING.tracer = None
    assert reply.status_code == 200
    [span] = [span for span in exporter.get_finished_spans() if span.name == tool]
    assert span.context is not None
    assert format(span.context.trace_id, "032x") == trace_id
