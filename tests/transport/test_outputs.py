"""`GET /api/plans/{planId}/outputs` and `GET /api/outputs/{outputId}`: download as files."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import AgentClient, Body, OrgEnv
from transport.test_reading import make_face, reading_as
from waybook.app.queries.documents import file_name
from waybook.app.request.caller import ReadableOutput
from waybook.plan.store_output import FILE_EXTENSIONS, Output
from waybook.transport.http.requests import output_response

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
