"""`GET /api/plans/{planId}/outputs` and `GET /api/outputs/{outputId}`: download as files."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from full_ids import full_id
from org_env import AgentClient, Body, OrgEnv
from transport.fake_dispatcher import CALLER, RecordingDispatcher, make_gateway
from transport.test_reading import make_face, reading_as
from waybook.app.queries.documents import file_name
from waybook.app.request.caller import ReadableOutput
from waybook.errors import NotFound, Unavailable, WaybookError
from waybook.plan.store_output import FILE_EXTENSIONS, Output
from waybook.transport.http.requests import ReadApi, output_response

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
    return replace(output, **more)  # type: ignore[arg-type]  # names are its own


@pytest.fixture
async def http(world: OrgEnv) -> AsyncIterator[httpx2.AsyncClient]:
    async with make_face(reading_as(world.agent)) as client:
        yield client


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


async def test_output_of_another_org_returns_404_like_an_unknown_output(
    http: httpx2.AsyncClient, world: OrgEnv
) -> None:
    world.other_org_may_change = True
    theirs = await deliver(world.other_org, world.other_org_plan)
    nobodys = "01890000-0000-7000-8000-000000000000"
    plans = (full_id(world.other_org_plan["planId"]), nobodys, "x", "☃")
    for addresses in (
        [f"/api/outputs/{i}" for i in (theirs["outputId"], nobodys, "x", "☃", "a" * 300)],
        [f"/api/plans/{i}/outputs" for i in plans],
    ):
        replies = [await http.get(address) for address in addresses]
        assert {(reply.status_code, reply.text) for reply in replies} == {(404, replies[0].text)}
        assert replies[0].json()["error"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize(("fault", "status"), [(NotFound, 404), (Unavailable, 503)])
@pytest.mark.parametrize("path", ["/api/outputs/o-1", "/api/plans/p-1/outputs"])
async def test_output_api_maps_errors_to_http_statuses(
    path: str, fault: type[WaybookError], status: int
) -> None:
    async with make_face(ReadApi(make_gateway(RecordingDispatcher(deliverable=fault)))) as client:
        reply = await client.get(path)
    assert reply.status_code == status


async def test_output_api_calls_tool_gateway_and_rejects_post() -> None:
    dispatcher = RecordingDispatcher(deliverable=make_output())
    async with make_face(ReadApi(make_gateway(dispatcher))) as client:
        listed = await client.get("/api/plans/p-1/outputs")
        refused = await client.post("/api/outputs/o-1", json={})
    assert listed.json() == {"planId": "p-1", "outputs": [{"outputId": "o-1"}]}
    assert dispatcher.calls == [(CALLER, "outputs", {"planId": "p-1"})]
    assert refused.status_code == 405
