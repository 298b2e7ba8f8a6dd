"""`/api/openapi.json` describes exactly the routes under `/api` and their actual responses."""

import json
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.routing import Route

from fuzz.api_corpus import CORPUS_FILE, recorded_requests
from fuzz.corpus_files import MAX_TOTAL_BYTES
from org_env import AgentClient, Body, OrgEnv
from run_documents import render_all
from transport.fake_dispatcher import make_app, make_server
from transport.page_client import make_browser
from transport.test_read_api import reading_as
from waybook.transport.http.app import load_openapi

OPENAPI: dict[str, Any] = json.loads(load_openapi())
#: Name of each path parameter in the OpenAPI description, by its name in the source.
GAPS = {
    "run_id": "runId",
    "resource_id": "resourceId",
    "plan_id": "planId",
    "output_id": "outputId",
}
BROKEN = 500
UNKNOWN_ID = "00000000-0000-0000-0000-000000000000"


def test_schemas_in_the_openapi_document_are_valid_json_schemas() -> None:
    assert OPENAPI["openapi"] == "3.1.0"
    for schema in OPENAPI["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_openapi_description_lists_exactly_the_served_api_routes(
    monkeypatch: pytest.MonkeyPatch, alone: OrgEnv
) -> None:
    captured_routes: list[Route] = []

    def remembering(*, routes: list[Route], **rest: Any) -> object:  # noqa: ANN401 - passed on
        captured_routes.extend(routes)
        return Starlette(routes=routes, **rest)

    monkeypatch.setattr("waybook.transport.http.app.Starlette", remembering)
    server = make_server()
    reading = reading_as(alone.agent)
    make_app(server, reading=reading)
    served = {
        (_as_described(route.path), method.lower())
        for route in captured_routes
        if route.path.startswith("/api/")
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == {(path, method) for path, ways in OPENAPI["paths"].items() for method in ways}


def _as_described(path: str) -> str:
    for ours, theirs in GAPS.items():
        path = path.replace(f"{{{ours}}}", f"{{{theirs}}}")
    return path


async def sample_paths(agent: AgentClient) -> dict[str, str]:
    """Create sample records; return the value of each URL parameter by the parameter's name."""
    run = await agent.run()
    await agent.submit_documents(await agent.job(run), "# Found")
    await render_all(agent)
    report = await agent.progress(run, detail=True)
    document = report["stages"][0]["documents"][0]["resourceId"]
    plan = await agent.plan(1)
    fields = {"mediaType": "text/html", "title": "x", "content": "<p>x"}
    output = await agent.call("store_research_output", planId=plan["planId"], **fields)
    plan_id, output_id = plan["planId"], output["outputId"]
    ids = {"runId": run["runId"], "planId": plan_id, "outputId": output_id}
    return {**ids, "resourceId": document, "view": "plans"}


async def addresses(agent: AgentClient) -> list[tuple[str, str, bytes | None]]:
    """Return valid and invalid requests for the routes, as route, URL and body."""
    known = await sample_paths(agent)
    run_id, document = known["runId"], known["resourceId"]
    recipe: Body = {"steps": [], "edges": []}
    bad = {"dag": {"slug": "x", "stages": [{"slug": "a", "recipe": recipe}], "transitions": []}}
    posted = [b"{", json.dumps(bad).encode(), b'{"dag":{"slug":"x","stages":[]}}']
    return [
        ("/api/openapi.json", "/api/openapi.json", None),
        *(
            ("/api/runs/{runId}/progress", f"/api/runs/{i}/progress", None)
            for i in (run_id, UNKNOWN_ID, "x")
        ),
        *(
            ("/api/documents/{resourceId}", f"/api/documents/{i}", None)
            for i in (document, f"{document}?format=markdown", f"{document}?format=x", UNKNOWN_ID)
        ),
        *(
            ("/api/plans/{planId}/outputs", f"/api/plans/{i}/outputs", None)
            for i in (known["planId"], UNKNOWN_ID)
        ),
        *(
            ("/api/outputs/{outputId}", f"/api/outputs/{i}", None)
            for i in (known["outputId"], UNKNOWN_ID)
        ),
        *((path, path, body) for path in ("/api/report", "/api/map") for body in posted),
        *(
            ("/api/views/{view}", f"/api/views/{view}", None)
            for view in (
                *("plans?limit=1&state=all", "runs?q=x", "reviews", "agents", "workflows"),
                *(f"plan?q={known['planId']}", f"run?q={run_id}", "plans?state=x", "plans?x=1"),
                *("plans?limit=0", "plan?q=unknown", "x", f"comments?q={run_id}", "comments"),
            )
        ),
        *(
            ("/api/comments", "/api/comments", body)
            for body in (
                json.dumps({"subjectId": run_id, "text": "Well done."}).encode(),
                *(b'{"subjectId":"x","text":"y"}', b'{"text":"y"}', b"[]", b"{"),
            )
        ),
        *(
            ("/api/plans/{planId}/links", f"/api/plans/{plan}/links", body)
            for plan in (known["planId"], UNKNOWN_ID)
            for body in (b'{"days":1}', b'{"days":"1"}', b"[]", b"{")
        ),
    ]


async def test_api_responses_conform_to_openapi_description(alone: OrgEnv) -> None:
    async with make_browser(alone.agent) as client:
        for path, address, body in await addresses(alone.agent):
            method = "get" if body is None else "post"
            reply = await client.request(method, address, content=body)
            conforms(path, method, reply)


async def test_recorded_fuzzer_requests_get_documented_responses(alone: OrgEnv) -> None:
    known = await sample_paths(alone.agent)
    async with make_browser(alone.agent) as client:
        for request in recorded_requests():
            address = request.address
            for name, identity in known.items():
                address = address.replace(f"{{{name}}}", identity)
            body = None if request.body is None else request.body.encode()
            reply = await client.request(request.method, address, content=body)
            conforms(request.path, request.method, reply)
            # If the recorded status is 500 or more, the bug may have been fixed, so other statuses
            # are allowed. Every response must conform to the description.
            assert reply.status_code == request.status or request.status >= BROKEN, request


def test_recorded_fuzzer_requests_cover_all_routes_in_a_small_file() -> None:
    every = {(path, method) for path, ways in OPENAPI["paths"].items() for method in ways}
    assert {(request.path, request.method) for request in recorded_requests()} == every
    named = {request.path for request in recorded_requests() if "{" in request.address}
    # For every path with an id, there must be a recorded request with an existing id.
    assert named == {path for path in OPENAPI["paths"] if "{" in path}
    assert CORPUS_FILE.stat().st_size < MAX_TOTAL_BYTES


def conforms(path: str, method: str, reply: httpx2.Response) -> None:
    answers = OPENAPI["paths"][path][method]["responses"]
    assert str(reply.status_code) in answers, (path, reply.status_code, reply.text)
    response = answers[str(reply.status_code)]
    response = OPENAPI["components"]["responses"]["Refused"] if "$ref" in response else response
    kind = reply.headers["content-type"].partition(";")[0]
    assert kind in response["content"] or "*/*" in response["content"], (path, kind)
    if kind == "application/json":
        schema = {**response["content"][kind]["schema"], "components": OPENAPI["components"]}
        Draft202012Validator(schema).validate(reply.json())
