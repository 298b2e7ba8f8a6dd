"""Ids of another org's records, which every transport answers like ids that do not exist."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp_types import PromptReference, ResourceTemplateReference, TextContent
from starlette.routing import Route

from database_rows import rows, without_row_level_security
from foreign_ids import foreign_id_calls
from foreign_records import create_foreign_records
from org_env import OrgEnv, make_env
from postgres_servers import Server, new_database
from project.repository import SOURCE
from rls_only_queries import stripping
from transport.full_app import TOKEN, free_port, full_app, make_client, routes_of, sample_ids
from waybook.app.request.caller import Answer
from waybook.core.ids import is_id
from waybook.store.driver.queries import new_id, new_uuid
from waybook.transport.mcp.resources import KINDS
from waybook.transport.mcp.server import PROMPTS, URIS

#: Values for the path parameters that are not ids.
ELSE = {
    "ending": ("md", "json", "jsonl", "svg", "mmd", "txt", "html"),
    "form": ("csv", "jsonl"),
    "slug": ("deep-research",),
    "agent": ("ann",),
    "version": ("x",),
    "name": ("waybook.css",),
    "view": ("plans", "runs", "plan", "run"),
}
#: For each route, the query parameters that may be ids.
QUERIES = {
    "/audit": ("subject",),
    "/audit.{form}": ("subject",),
    "/api/views/{view}": ("q",),
    "/inbox": ("done", "item"),
    "/runs/{run_id}/documents/{resource_id}": ("with",),
}
#: Text before the id in a query parameter.
PREFIXES = {"item": "review-"}
#: Query parameters that never contain an id, such as filters and positions in a list.
OTHER_WORDS = {
    *("behind", "before", "state", "q", "dag", "version", "page", "window"),
    *("event", "actor", "channel", "since", "until", "format", "part", "then", "seq", "at"),
    *("back", "show", "map", "near", "model", "stage", "session", "day"),
    *("template", "from", "moved", "way", "step", "by", "view"),
    *("budget", "find", "range", "sort", "to"),
}
#: Form data for every route that accepts a form or, below `/api/`, JSON; `ID` stands for the id.
FORMS: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "/decisions": (
        {"planId": "ID", "reviewId": "ID", "decision": "approve"},
        {"planId": "{plan_id}", "reviewId": "ID", "decision": "approve"},
        {"planId": "ID", "reviewId": "ID", "decision": "reject"},
        {"planId": "ID", "reviewId": "ID", "decision": "wait"},
    ),
    "/decisions/selected": ({"review": "ID"},),
    "/caps": ({"capId": "ID", "limit": "10"}, {"capId": "ID", "end": "true"}),
    "/comments/{subject_id}": ({"text": "x"},),
    "/api/comments": ({"subjectId": "ID", "text": "x"},),
    "/api/plans/{plan_id}/links": ({"days": "7"},),
    "/feedback": ({"runId": "ID", "stageSlug": "scope", "feedback": "Go on.", "models": "a"},),
    "/tokens": (
        {"act": "revoke", "id": "ID"},
        {"act": "revoke", "id": "ID", "confirmed": "yes"},
        {"act": "disable", "user": "ID"},
    ),
    "/rescue": (
        {"work": "plan:ID:1:ID"},
        {"work": "run:ID:scope", "key": "k"},
        {"work": "document:ID:", "key": "k"},
    ),
    "/plans/{plan_id}/cancel": ({"reason": "x", "revision": "1"},),
    "/plans/{plan_id}/share": ({"act": "revoke", "link": "ID"}, {"act": "create", "days": "7"}),
    "/runs/{run_id}/cancel": ({"reason": "x"},),
    "/plans/{plan_id}/edit": (
        {
            "revision": "1",
            "action": "add_steps",
            "stepType": "search",
            "instructions": "x",
            "after": "1",
        },
        {"revision": "1", "action": "reorder_steps", "order": "ID"},
    ),
    "/plans/{plan_id}/copy": ({"name": "x", "from": "1", "key": "k"},),
    "/runs/{run_id}/copy": ({"name": "x", "from": "scope", "models": "a", "key": "k"},),
    "/plans/{plan_id}/steps/{step_id}": tuple(
        {"revision": "1", "action": action, "instructions": "x", "reason": "x"}
        for action in ("move_up", "update_step_instructions", "fail_step", "remove_step")
    ),
}
#: Routes without ids: `/api/report` and `/api/map` have no id, links in messages contain a secret,
#: and MCP has its own test.
NO_ROWS = {
    *("/api/report", "/api/map", "/mcp", "/mcp/"),
    *("/act/{secret}/{decision}", "/act/{secret}/feedback"),
}
#: Routes of forms without ids: a new run names its workflow, and a new plan names its template.
NO_IDS = {"/plans/new", "/runs/new", "/theme"}
#: Routes whose response never ends; their events are tested in `test_live.py`.
STREAMS = {"/live"}


@dataclass(frozen=True)
class Visit:
    """HTTP request with the placeholder `ID` for an id."""

    method: str
    address: str
    form: Mapping[str, str] | None = None

    async def complete(self, client: httpx2.AsyncClient, row_id: str) -> tuple[object, ...]:
        """Send the request with this id; return the reply without the parts that always vary."""
        sent = {k: v.replace("ID", row_id) for k, v in (self.form or {}).items()}
        headers = {"accept": "text/html"}
        where = self.address.replace("ID", row_id)
        if self.form is None:
            body: dict[str, Any] = {}
        elif where.startswith("/api/"):
            body = {"json": {k: int(v) if v.isdecimal() else v for k, v in sent.items()}}
        else:
            body = {"data": {"token": TOKEN, **sent}}
        reply = await client.request(self.method, where, headers=headers, **body)
        reply_headers = {name: v for name, v in reply.headers.items() if name != "content-length"}
        text = re.sub(r'name="(?:key|token)" value="[^"]+"', "", reply.text.replace(row_id, "ID"))
        text = re.sub(r'data-at="[^"]+"', "", text)
        return reply.status_code, str(reply_headers).replace(row_id, "ID"), text


@pytest.fixture
async def world(eighteen: Server) -> AsyncIterator[OrgEnv]:
    """Yield an environment with its own database, because a test disables row-level security."""
    with new_database(eighteen) as place:
        async with make_env(place) as made:
            yield made


@pytest.fixture
async def ours(world: OrgEnv) -> dict[str, str]:
    return await sample_ids(world.agent)


def visits(route: Route, ours: Mapping[str, str]) -> Iterator[Visit]:
    """Yield requests to a route, with the placeholder `ID` in place of some or all of its ids."""
    places = [name for name in route.param_convertors if name.endswith("_id")]
    for method in sorted((route.methods or set()) - {"HEAD"}):
        for form in FORMS[route.path] if method == "POST" else (None,):
            has_id = form is not None and any("ID" in value for value in form.values())
            for foreign in _subsets(places, least=0 if has_id else 1):
                for address in _addresses(route, {**ours, **dict.fromkeys(foreign, "ID")}):
                    fields = {k: v.format(**ours) for k, v in form.items()} if form else None
                    yield Visit(method, address, fields)
    for word in QUERIES.get(route.path, ()):
        for address in _addresses(route, ours):
            yield Visit("GET", f"{address}?{word}={PREFIXES.get(word, '')}ID")


def _subsets(places: list[str], least: int) -> Iterator[tuple[str, ...]]:
    for size in range(least, len(places) + 1):
        yield from combinations(places, size)


def _addresses(route: Route, named: Mapping[str, str]) -> Iterator[str]:
    others = [n for n in route.param_convertors if not n.endswith("_id") and n not in named]
    (other,) = others or [""]
    for value in ELSE[other] if other else ("",):
        path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
        yield path.format(**{**named, other: value})


async def revealed_kinds(
    world: OrgEnv, ours: Mapping[str, str], theirs: Mapping[str, str]
) -> dict[str, str | None]:
    """For each route, return a kind of another org's records whose existence it leaks, or None."""
    app = full_app(world.agent)
    async with make_client(app) as client:
        return {
            route.path: await revealed_kind(client, requests, theirs)
            for route in routes_of(app)
            if route.path not in NO_ROWS | NO_IDS | STREAMS
            and (requests := list(visits(route, ours)))
        }


async def revealed_kind(
    client: httpx2.AsyncClient, requests: Iterable[Visit], theirs: Mapping[str, str]
) -> str | None:
    """Return the first kind of another org's records whose existence the replies leak, or None."""
    for visit in requests:
        expected = {
            has_id: await visit.complete(client, new_id() if has_id else new_uuid())
            for has_id in (True, False)
        }
        if visit.method == "GET" and "ID" in visit.address.partition("?")[0]:
            assert {status for status, *_ in expected.values()} == {404}, visit
        for kind, row_id in theirs.items():
            if await visit.complete(client, row_id) != expected[is_id(row_id)]:
                return kind
    return None


async def test_http_routes_answer_ids_of_another_org_like_unknown_ids(
    world: OrgEnv, ours: dict[str, str]
) -> None:
    theirs = await create_foreign_records(world)
    before = rows(world)
    leaks = await revealed_kinds(world, ours, theirs)
    assert {path: kind for path, kind in leaks.items() if kind} == {}
    assert rows(world) == before


async def test_isolation_check_detects_leaks_without_row_level_security(
    world: OrgEnv, ours: dict[str, str]
) -> None:
    theirs = await create_foreign_records(world)
    world.is_sound = False
    without_row_level_security(world.place)
    with stripping():
        leaks = await revealed_kinds(world, ours, theirs)
    assert {path for path, kind in leaks.items() if not kind} == set()
    assert set(leaks) >= {*QUERIES, *FORMS}


def test_isolation_tests_include_every_route_that_accepts_post(world: OrgEnv) -> None:
    routes = routes_of(full_app(world.agent))
    takers = {route.path for route in routes if not route.methods or "POST" in route.methods}
    assert takers == {*FORMS, *NO_ROWS, *NO_IDS}


def test_isolation_tests_list_every_query_parameter_of_all_routes() -> None:
    mention = re.compile(
        r'(?:query_params|query|params)\.get(?:list)?\("(\w+)"'
        r'|(?:query_param\(request, |\.(?:query|number|choice)\()"(\w+)"'
        r"|query\.get\('(\w+)'\)"
    )
    folder = SOURCE / "transport" / "http"
    parameters = {
        word
        for pattern in ("*.py", "*.html")
        for path in folder.rglob(pattern)
        for pair in mention.findall(path.read_text("utf-8"))
        for word in pair
        if word
    }
    assert parameters == OTHER_WORDS | {word for words in QUERIES.values() for word in words}


# Tests over MCP.

#: Kinds of records whose ids are tested over MCP. These few are enough, because MCP passes all
#: arguments to the tools unchanged.
SOME = ("plan", "running step", "running job", "artifact")


@dataclass
class Caller:
    """MCP client with the method `ask` of `AgentClient`."""

    client: Client

    async def ask(self, tool: str, arguments: Mapping[str, object]) -> Answer:
        result = await self.client.call_tool(tool, dict(arguments))
        [block] = result.content
        assert isinstance(block, TextContent)
        return Answer(json.loads(block.text), is_error=result.is_error)


async def reply_or_error(reading: Any, row_id: str) -> str:  # noqa: ANN401 - any result
    """Return the reply or the error as text, with `ID` in place of the id."""
    try:
        return str(await reading).replace(row_id, "ID")
    except MCPError as error:
        return f"{error.code} {error.message} {error.data}".replace(row_id, "ID")


async def test_mcp_tools_answer_ids_of_another_org_like_unknown_ids(world: OrgEnv) -> None:
    theirs = await create_foreign_records(world)
    probes = await foreign_id_calls(world.agent)
    before = rows(world)
    async with free_port(world.agent) as where, Client(f"{where}/mcp") as client:
        caller = Caller(client)
        some = {kind: row for kind, row in theirs.items() if kind in SOME}
        for probe in probes:
            assert await probe.betrayed(caller, some) == [], probe.name
        # A report of a worker is valid even if its reservation has ended or never existed.
        report = {"sessionId": "worker-1", "agent": "codex", "state": "ended"}
        assert not (await caller.ask("report_worker", report)).is_error
    assert rows(world) == before


async def test_resources_prompts_and_completions_reveal_no_data_of_another_org(
    world: OrgEnv,
) -> None:
    theirs, never = await create_foreign_records(world), new_id()
    async with free_port(world.agent) as where, Client(f"{where}/mcp") as client:
        for kind in KINDS:
            missing = await reply_or_error(client.read_resource(kind.uri.format(id=never)), never)
            assert "Resource not found" in missing
            for row_id in theirs.values():
                reply = await reply_or_error(
                    client.read_resource(kind.uri.format(id=row_id)), row_id
                )
                assert reply == missing, kind
        for row_id in (theirs["plan"], theirs["run"]):
            for name, argument in PROMPTS.items():
                requests = (client.get_prompt(name, {argument: value}) for value in (row_id, never))
                assert await reply_or_error(next(requests), row_id) == await reply_or_error(
                    next(requests), never
                )
                reference = PromptReference(name=name)
                done = await client.complete(reference, {"name": argument, "value": row_id[:8]})
                assert done.completion.values == []
            for uri in URIS:
                template = ResourceTemplateReference(uri=uri)
                done = await client.complete(template, {"name": "id", "value": row_id[:8]})
                assert done.completion.values == []
        listed = (await client.list_resources()).model_dump_json()
    assert not [kind for kind, row_id in theirs.items() if row_id in listed]
