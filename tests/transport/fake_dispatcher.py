"""Tool dispatcher for tests that records calls and returns scripted answers."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.types import ASGIApp

from tools.generate.tool_list import list_tools
from waybook.app.request.arguments import ToolArguments
from waybook.app.request.caller import (
    Answer,
    Caller,
    ReadableDocument,
    ReadableOutput,
    ReadableReview,
)
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool
from waybook.app.skills.skill import Skill
from waybook.core.decision_context import Channel
from waybook.errors import NotFound, RateLimited, WaybookError
from waybook.json_values import Body
from waybook.store.driver.bus import Bus
from waybook.transport.gateway import ToolGateway
from waybook.transport.http.app import AllowedHosts, build_app
from waybook.transport.http.server import listen, serve_in_background
from waybook.transport.mcp.direct_calls import ToolServer
from waybook.transport.mcp.server import build_server

CALLER = Caller(org_id=UUID(int=1), user="ann", channel=Channel.MCP)

PLANS = [
    {
        "planId": f"plan-{number}",
        "name": f"Plan {number}",
        "status": "executing",
        "state": "Running",
        "progress": 40,
    }
    for number in (1, 2)
]
SKILLS = [
    {"name": "market-scan", "description": "Scan a market."},
    {"name": "resume_plan", "description": "Takes a name that is not free."},
]
RUNS = [
    {
        "runId": f"run-{number}",
        "name": f"Run {number}",
        "dagSlug": "dialectic",
        "currentStage": current,
        "awaitingFeedback": waiting,
        "completedSteps": 5,
    }
    for number, current, waiting in ((1, "antithesis", None), (2, None, "thesis"))
]
ANSWERS: Mapping[str, Answer] = {
    "list_active_plans": Answer({"plans": PLANS, "total": 2, "nextCursor": None}),
    "get_research_context": Answer({"planId": "plan-1", "steps": []}),
    "list_skills": Answer({"skills": SKILLS}),
    "list_dags": Answer({"dags": [], "openRuns": RUNS}),
}


def make_refusal(code: str, message: str = "It cannot be.") -> Answer:
    error: dict[str, object] = {"code": code, "message": message, "details": {}, "next": None}
    return Answer({"error": error}, is_error=True)


@dataclass(frozen=True, slots=True)
class RecordingDispatcher:
    answers: Mapping[str, Answer] = field(default_factory=lambda: ANSWERS)
    calls: list[tuple[Caller, str, dict[str, object]]] = field(default_factory=list)
    requests: list[Request | None] = field(default_factory=list)
    #: Document to return for any id, or error to raise instead.
    readable: ReadableDocument | type[WaybookError] = NotFound
    #: Output to return for any id, or error to raise instead.
    deliverable: ReadableOutput | type[WaybookError] = NotFound
    #: Reviews to return, by review id.
    reviews: dict[str, ReadableReview] = field(default_factory=dict)
    skills: tuple[Skill, ...] = ()
    bus: Bus = field(default_factory=Bus)
    workflows: bool = False

    def try_acquire(self, _: Caller) -> float:
        return 0.0

    def charge(self, _: Caller, calls: int) -> None:
        """Do nothing, because this dispatcher has no rate limit."""

    def rate_limited_answer(self, _: Caller, what: str = "") -> RateLimited:
        return RateLimited(what)

    async def is_ready(self) -> bool:
        return True

    async def has_workflows(self, _: Caller) -> bool:
        return self.workflows

    async def dispatch(self, caller: Caller, tool: str, arguments: Mapping[str, object]) -> Answer:
        self.calls.append((caller, tool, dict(arguments)))
        echo = Answer({"tool": tool, "arguments": dict(arguments)})
        return self.answers.get(tool, echo)

    async def read_document(self, caller: Caller, resource_id: str) -> ReadableDocument:
        self.calls.append((caller, "document", {"resourceId": resource_id}))
        if isinstance(self.readable, ReadableDocument):
            return self.readable
        raise self.readable

    async def read_output(self, caller: Caller, output_id: str) -> ReadableOutput:
        self.calls.append((caller, "output", {"outputId": output_id}))
        if isinstance(self.deliverable, ReadableOutput):
            return self.deliverable
        raise self.deliverable

    async def read_review(self, caller: Caller, review_id: str) -> ReadableReview:
        self.calls.append((caller, "review", {"reviewId": review_id}))
        if review_id in self.reviews:
            return self.reviews[review_id]
        raise NotFound

    async def list_outputs(self, caller: Caller, plan_id: str) -> list[dict[str, object]]:
        self.calls.append((caller, "outputs", {"planId": plan_id}))
        if isinstance(self.deliverable, ReadableOutput):
            return [{"outputId": self.deliverable.output_id}]
        raise self.deliverable

    async def read_view(
        self, caller: Caller, view: str, parameters: Mapping[str, str]
    ) -> Mapping[str, object]:
        self.calls.append((caller, view, {**parameters}))
        return {view: []}

    async def share_plan(self, caller: Caller, plan_id: str, days: object) -> str:
        self.calls.append((caller, "share", {"planId": plan_id, "days": days}))
        return f"http://localhost/shared/{plan_id}"


async def any_caller(_: Request | None) -> Caller:
    return CALLER


def make_gateway(dispatcher: RecordingDispatcher) -> ToolGateway:
    async def opened() -> RecordingDispatcher:
        return dispatcher

    async def authenticate(request: Request | None) -> Caller:
        dispatcher.requests.append(request)
        return CALLER

    return ToolGateway(opened, authenticate)


class AnyArguments(ToolArguments):
    pass


def make_tool(name: str, *profiles: str, reads_only: bool = False) -> Tool:
    async def unreachable_dispatcher(_: RequestContext, __: AnyArguments) -> Body:
        raise AssertionError

    tool = Tool(
        title=name.replace("_", " ").capitalize(),
        description=f"Calls {name}.",
        reply={},
        reads_only=reads_only,
        idempotent=reads_only,
        profiles=frozenset(profiles),
    )(unreachable_dispatcher)
    tool.name = name
    return tool


TOOLS = list_tools(
    {
        tool.name: tool
        for tool in (
            make_tool("get_next_step", "research"),
            make_tool("submit_step_result", "research"),
            make_tool("list_active_plans", "research", reads_only=True),
            make_tool("store_research", "research"),
            make_tool("start_run", "runs"),
            make_tool("get_next_job", "runs"),
            make_tool("start_skill", "research"),
        )
    }
)


async def always() -> bool:
    return True


def make_server(dispatcher: RecordingDispatcher | None = None, **options: Any) -> ToolServer:  # noqa: ANN401 - passed on
    return build_server(TOOLS, make_gateway(dispatcher or RecordingDispatcher()), **options)


def make_app(server: ToolServer | None = None, **options: Any) -> ASGIApp:  # noqa: ANN401 - passed on
    """Return an HTTP application without a database, which always reports that it is ready."""
    return build_app(
        server or make_server(), **{"hosts": AllowedHosts(), "ready": always, **options}
    )


def serve(app: ASGIApp, *stop: Any, **options: Any) -> AbstractAsyncContextManager[str]:  # noqa: ANN401 - passed on
    """Serve an application on a free port, and yield its address."""
    return serve_in_background(app, listen("127.0.0.1", 0), *stop, **options)
