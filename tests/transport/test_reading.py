"""`GET /api/runs/{runId}/progress` and `GET /api/documents/{resourceId}` over HTTP."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from transport.fake_dispatcher import TOOLS, RecordingDispatcher, always, make_gateway, make_refusal
from transport.full_app import gateway_of
from waybook.app.request.caller import ReadableDocument
from waybook.core.decision_context import Channel
from waybook.dag.progress.report import check
from waybook.dag.templates.rendering import build_page
from waybook.errors import NotFound, Unavailable, WaybookError
from waybook.transport.http.app import build_app
from waybook.transport.http.request_checks import AllowedHosts
from waybook.transport.http.requests import ReadApi, document_response, markdown_response
from waybook.transport.mcp.server import build_server

HOSTILE = "# Found\n\n<script>alert(1)</script> [x](javascript:alert(1)) ![i](http://x/i.png)"


def make_face(reading: ReadApi) -> httpx2.AsyncClient:
    server = build_server(TOOLS, make_gateway(RecordingDispatcher()))
    app = build_app(server, hosts=AllowedHosts(), ready=always, reading=reading)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


def reading_as(agent: AgentClient) -> ReadApi:
    return ReadApi(gateway_of(agent, Channel.REST))


@pytest.fixture
async def http(world: OrgEnv) -> AsyncIterator[httpx2.AsyncClient]:
    async with make_face(reading_as(world.agent)) as client:
        yield client


async def make_rendered_run(agent: AgentClient) -> Body:
    run = await agent.run()
    await agent.submit_documents(await agent.job(run), HOSTILE)
    await render_all(agent)
    return run


async def read_document(
    http: httpx2.AsyncClient, agent: AgentClient, query: str = ""
) -> httpx2.Response:
    progress = await agent.progress(await make_rendered_run(agent))
    (document,) = progress["stages"][0]["documents"]
    return await http.get(f"/api/documents/{document['resourceId']}{query}")


# Tests of the progress of a run.


async def test_run_progress_api_returns_report_and_usage(
    http: httpx2.AsyncClient, agent: AgentClient
) -> None:
    run = await make_rendered_run(agent)
    reply = await http.get(f"/api/runs/{run['runId']}/progress")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert list(reply.json()) == [
        *("dagProgress", "stages", "warnings", "status", "awaitingFeedback", "progress", "usage")
    ]
    report = await agent.progress(run, detail=True)
    assert reply.json() == {name: value for name, value in report.items() if name != "next"}
    assert check(reply.json()) == []


@pytest.mark.parametrize("path", ["/api/runs/%00/progress", "/api/documents/d-1?format=pdf"])
async def test_read_api_returns_400_for_an_invalid_id_or_format(
    http: httpx2.AsyncClient, path: str
) -> None:
    reply = await http.get(path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *(("NOT_FOUND", 404), ("INVALID_INPUT", 400), ("FORBIDDEN", 403)),
        *(("RATE_LIMITED", 429), ("BUSY", 503), ("UNAVAILABLE", 503)),
    ],
)
async def test_run_progress_api_maps_errors_to_http_statuses(code: str, status: int) -> None:
    dispatcher = RecordingDispatcher({"get_run_progress": make_refusal(code)})
    async with make_face(ReadApi(make_gateway(dispatcher))) as client:
        reply = await client.get("/api/runs/r-1/progress")
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("path", ["/api/runs/r-1/progress", "/api/documents/d-1"])
async def test_read_api_returns_405_for_post_requests(path: str) -> None:
    async with make_face(ReadApi(make_gateway(RecordingDispatcher()))) as client:
        reply = await client.post(path, json={})
    assert (reply.status_code, reply.json()["error"]["code"]) == (405, "INVALID_INPUT")


# Documents


async def test_document_page_has_sandbox_policy_and_no_active_content(
    http: httpx2.AsyncClient, agent: AgentClient
) -> None:
    reply = await read_document(http, agent)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert policy.endswith("; sandbox")
    assert "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-disposition"] == 'inline; filename="research_brief.a.html"'
    assert "<h1>Found</h1>" in reply.text
    assert "<script" not in reply.text
    assert "<img" not in reply.text
    assert "javascript:" not in re.sub(r"<p>.*?</p>", "", reply.text)


async def test_document_api_sends_markdown_as_an_attachment(
    http: httpx2.AsyncClient, agent: AgentClient
) -> None:
    reply = await read_document(http, agent, "?format=markdown")
    assert reply.headers["content-type"] == "text/markdown; charset=utf-8"
    assert reply.headers["content-disposition"] == 'attachment; filename="research_brief.a.md"'
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.text.startswith("# Found")


@pytest.mark.parametrize(("fault", "status"), [(NotFound, 404), (Unavailable, 503)])
@pytest.mark.parametrize(
    "path", ["/api/documents/d-1", "/api/outputs/o-1", "/api/plans/p-1/outputs"]
)
async def test_read_api_maps_errors_to_http_statuses(
    path: str, fault: type[WaybookError], status: int
) -> None:
    failing = make_gateway(RecordingDispatcher(readable=fault, deliverable=fault))
    async with make_face(ReadApi(failing)) as client:
        reply = await client.get(path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, fault.code)


@given(key=st.text(min_size=1), model=st.text(min_size=1))
def test_document_with_any_name_has_safe_disposition_header(key: str, model: str) -> None:
    document = make_document(document_key=key, model=model)
    for reply in (document_response(document), markdown_response(document)):
        named = reply.headers["content-disposition"]
        assert re.fullmatch(r'(inline|attachment); filename="[A-Za-z0-9._-]+"', named)


@given(title=st.text())
@example(title="</title><script>alert(1)</script>")
def test_document_title_cannot_close_the_title_element(title: str) -> None:
    page = build_page(title, "<p>Text</p>")
    assert page.count("<title>") == page.count("</title>") == page.count("<style>") == 1
    assert page.count("<script") == 0


def make_document(**more: str) -> ReadableDocument:
    document = ReadableDocument(
        resource_id="d-1",
        run_id="r-1",
        document_key="view",
        model="opus",
        lineage="stage/step/opus",
        version=1,
        created_at=datetime(2030, 1, 1, tzinfo=UTC),
        markdown="# Text",
        html="<h1>Text</h1>",
        made_from=[],
    )
    return replace(document, **more)  # type: ignore[arg-type]  # texts, all of them
