"""`POST /api/report` and `POST /api/map`: return a report or map of the posted snapshot."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from dag_builders import make_chain, make_dag, make_stage, make_step
from dag_evidence import Body, make_job, make_snapshot
from patience import PATIENCE_SECONDS
from transport.test_garbage import NOT_JSON, keeps_silent
from waybook.dag.definitions.definition import write_definition
from waybook.dag.progress.report import check
from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.transport.http import app
from waybook.transport.http.responses import json_response

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAG = make_dag(
    make_stage("thesis", make_step("plan"), make_step("write"), edges=make_chain("plan", "write"))
)
SNAPSHOT = make_snapshot(DAG, make_job("thesis", "plan", "completed"), runs={"thesis": ["alpha"]})
BOTH = pytest.mark.parametrize("path", ["/api/report", "/api/map"])


async def test_report_api_returns_the_report_of_a_snapshot(http: httpx2.AsyncClient) -> None:
    reply = await http.post("/api/report", json=SNAPSHOT)
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.json() == report_from_snapshot(SNAPSHOT)
    assert check(reply.json()) == []


async def test_map_api_accepts_a_snapshot_or_a_definition(http: httpx2.AsyncClient) -> None:
    for body in (SNAPSHOT, write_definition(DAG)):
        reply = await http.post("/api/map", json=body)
        assert (reply.status_code, reply.json()) == (200, map_from_snapshot(body))


async def test_map_api_returns_422_for_a_workflow_with_a_cycle(http: httpx2.AsyncClient) -> None:
    definition: Body = write_definition(DAG)
    definition["stages"][0]["recipe"]["edges"].append(["write", "plan"])
    reply = await http.post("/api/map", json=definition)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (422, "BAD_RECIPE")
    assert error["details"]["fault"] == "cycle"
    report = await http.post("/api/report", json={**SNAPSHOT, "dag": definition})
    assert report.status_code == 200
    assert report.json()["stages"][0]["status"] is None


@BOTH
@pytest.mark.parametrize("name", NOT_JSON)
async def test_report_and_map_apis_return_400_for_invalid_json(
    http: httpx2.AsyncClient, path: str, name: str
) -> None:
    reply = await http.post(path, content=NOT_JSON[name])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")
    assert keeps_silent(reply)


@BOTH
@pytest.mark.parametrize("body", [None, 1, "dag", [], {}, {"dag": []}], ids=str)
async def test_report_and_map_apis_return_400_for_an_invalid_snapshot(
    http: httpx2.AsyncClient, path: str, body: object
) -> None:
    reply = await http.post(path, json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "INVALID_INPUT")


@BOTH
async def test_report_and_map_apis_return_405_for_get_requests(
    http: httpx2.AsyncClient, path: str
) -> None:
    reply = await http.get(path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (405, "INVALID_INPUT")


async def test_server_answers_other_requests_while_processing_a_snapshot(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    begun, go_on = asyncio.Event(), asyncio.Event()

    def slow(_: bytes, __: object) -> Any:  # noqa: ANN401 - a response
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(PATIENCE_SECONDS)
        return json_response({"slow": True})

    monkeypatch.setattr(app, "answer_snapshot", slow)
    reply = asyncio.create_task(http.post("/api/report", content=json.dumps(SNAPSHOT)))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await begun.wait()
        assert (await http.get("/healthz")).status_code == 200
        go_on.set()
        assert (await reply).json() == {"slow": True}
