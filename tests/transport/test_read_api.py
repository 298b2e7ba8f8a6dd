"""Read API: progress of runs, documents, and outputs of plans."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from org_env import AgentClient, Body, OrgEnv
from report_invariants import check
from run_documents import render_all
from transport.fake_dispatcher import (
    RecordingDispatcher,
    make_app,
    make_gateway,
    make_refusal,
    make_server,
)
from transport.full_app import gateway_of
from waybook.app.queries.documents import file_name
from waybook.app.request.caller import ReadableDocument, ReadableOutput
from waybook.core.decision_context import Channel
from waybook.dag.templates.rendering import build_page
from waybook.errors import NotFound, Unavailable, WaybookError
from waybook.plan.model import Output
from waybook.plan.store_output import FILE_EXTENSIONS
from waybook.transport.http.requests import (
    ReadApi,
    document_response,
    markdown_response,
    output_response,
)

HOSTILE = "# Found\n\n<script>alert(1)</script> [x](javascript:alert(1)) ![i](http://x/i.png)"


def make_client(reading: ReadApi) -> httpx2.AsyncClient:
    server = make_server()
    app = make_app(server, reading=reading)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


def reading_as(agent: AgentClient) -> ReadApi:
    return ReadApi(gateway_of(agent, Channel.REST))


@pytest.fixture
async def http(world: OrgEnv) -> AsyncIterator[httpx2.AsyncClient]:
    async with make_client(reading_as(world.agent)) as client:
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
        *("dagProgress", "stages", "warnings", "status", "state", "awaitingFeedback", "progress"),
        "usage",
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
    async with make_client(ReadApi(make_gateway(dispatcher))) as client:
        reply = await client.get("/api/runs/r-1/progress")
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("path", ["/api/runs/r-1/progress", "/api/documents/d-1"])
async def test_read_api_returns_405_for_post_requests(path: str) -> None:
    async with make_client(ReadApi(make_gateway(RecordingDispatcher()))) as client:
        reply = await client.post(path, json={})
    assert (reply.status_code, reply.json()["error"]["code"]) == (405, "INVALID_INPUT")


# Tests of documents.


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
    async with make_client(ReadApi(failing)) as client:
        reply = await client.get(path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, fault.code)


@given(key=st.text(min_size=1), model=st.text(min_size=1))
def test_document_with_any_name_has_safe_content_disposition_header(key: str, model: str) -> None:
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
    return replace(document, **more)  # type: ignore[arg-type]  # all values are texts


# Tests of the outputs of plans.


NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def make_output(**more: object) -> ReadableOutput:
    output = ReadableOutput(
        output_id="o-1",
        plan_id="p-1",
        title="Rivers",
        media_type="text/markdown",
        version=1,
        created_at=NOON,
        created_by="ann",
        content="# Rivers",
        file_name="Rivers.v1.md",
    )
    return replace(output, **more)  # type: ignore[arg-type]  # the names are fields of the class


async def deliver(agent: AgentClient, plan: Body, **more: str) -> Body:
    named = {"mediaType": "text/markdown", "title": "Rivers", "content": "# Rivers ☃", **more}
    return await agent.call("store_research_output", planId=plan["planId"], **named)


async def test_output_download_has_media_type_and_safe_headers(
    http: httpx2.AsyncClient, agent: AgentClient
) -> None:
    output = await deliver(agent, await agent.plan())
    reply = await http.get(f"/api/outputs/{output['outputId']}")
    assert (reply.status_code, reply.text) == (200, "# Rivers ☃")
    assert reply.headers["content-type"] == "text/markdown; charset=utf-8"
    assert reply.headers["content-disposition"] == 'attachment; filename="Rivers.v1.md"'
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"].endswith("; sandbox")


async def test_html_output_is_served_as_plain_text_attachment(
    http: httpx2.AsyncClient, agent: AgentClient
) -> None:
    page = {"mediaType": "text/html", "content": "<script>alert(1)</script>"}
    output = await deliver(agent, await agent.plan(), **page)
    reply = await http.get(f"/api/outputs/{output['outputId']}")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["content-disposition"] == 'attachment; filename="Rivers.v1.html"'


@given(kind=st.sampled_from(sorted(FILE_EXTENSIONS)) | st.from_regex(r"[a-z]{1,9}/[a-z+.]{1,20}\Z"))
def test_output_response_never_uses_executable_content_type(kind: str) -> None:
    sent = output_response(make_output(media_type=kind)).headers
    assert re.fullmatch(
        r"(application/(json|jsonl|toml|x-ndjson|yaml)|text/(csv|markdown|plain|tab-sep.*)); "
        "charset=utf-8",
        sent["content-type"],
    )
    assert sent["content-disposition"].startswith("attachment;")


@given(title=st.text(min_size=1))
def test_download_with_any_title_has_safe_file_name(title: str) -> None:
    output = Output(
        id="o-1",
        title=title,
        media_type="text/x-any",
        version=3,
        content_hash="",
        created_at=NOON,
        created_by="ann",
    )
    sent = output_response(make_output(file_name=file_name(output))).headers["content-disposition"]
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+\.v3\.txt"', sent)


async def test_plan_outputs_endpoint_lists_all_versions_without_content(
    http: httpx2.AsyncClient, agent: AgentClient, world: OrgEnv
) -> None:
    plan = await agent.plan()
    first = await deliver(agent, plan)
    world.clock.advance(minutes=1)
    second = await deliver(agent, plan, content="# More")
    reply = await http.get(f"/api/plans/{plan['planId']}/outputs")
    payload = reply.json()
    assert payload["planId"] == plan["planId"]
    ids = [output["outputId"] for output in payload["outputs"]]
    assert ids == [second["outputId"], first["outputId"]]
    assert "# More" not in reply.text
