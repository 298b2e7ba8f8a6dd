"""MCP tool list, tool results, and what a client declares about itself.

The list is read from `tools.json`, so that clients get it before the tools are imported.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from importlib.resources import files
from typing import Any, Final

import mcp_types as wire
import orjson
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from waybook.app.request.caller import Answer, ReadableReview
from waybook.core.events import RUN, ChangeEvent
from waybook.errors import Misconfigured, WaybookError
from waybook.redaction import redact
from waybook.transport.gateway import ToolGateway
from waybook.transport.jsonrpc import (
    Context,
    code_of,
    compact_json,
    error_from_answer,
    invalid_params,
)

#: `auto` has the tools of `research` and, once the org has a workflow, also the tools of `runs`.
#: `work` also has the tools of workers.
PROFILES: Final = ("auto", "research", "runs", "work", "all")
_PARTS: Final = {"auto": {"research", "runs"}, "work": {"research", "runs", "work"}}
FILE: Final = "tools.json"


@dataclass(frozen=True, slots=True)
class PublishedTool:
    """A tool as MCP clients see it, and the profiles (sets of tools) that include it."""

    listed: wire.Tool
    profiles: frozenset[str]

    def is_in(self, profile: str) -> bool:
        parts = _PARTS.get(profile, {profile})
        return profile == "all" or not parts.isdisjoint(self.profiles)


def published_tools() -> dict[str, PublishedTool]:
    text = files("waybook.transport.mcp").joinpath(FILE).read_bytes()
    return {
        name: PublishedTool(wire.Tool.model_validate(entry["tool"]), frozenset(entry["profiles"]))
        for name, entry in orjson.loads(text).items()
    }


def tools_in_profile(tools: Mapping[str, PublishedTool], profile: str) -> list[wire.Tool]:
    if profile not in PROFILES:
        raise Misconfigured(f"There is no tool profile {profile!r}.", profiles=list(PROFILES))
    return [tool.listed for tool in tools.values() if tool.is_in(profile)]


def tools_of_workers(tools: Mapping[str, PublishedTool]) -> frozenset[str]:
    """Return the tools for programs that start agents.

    Every server accepts these calls. Only the profile `work` lists them, because models need not
    see them.
    """
    return frozenset(name for name, tool in tools.items() if tool.profiles == {"work"})


def unknown_tool(tools: Mapping[str, PublishedTool], name: str, profile: str) -> str:
    if name not in tools:
        return f"Unknown tool: {name}"
    profiles = [other for other in PROFILES if tools[name].is_in(other)]
    return (
        f"Unknown tool: {name} is not in the tool profile {profile} of this server; "
        f"profiles that include it: {', '.join(profiles)}"
    )


def to_tool_result(answer: Answer) -> wire.CallToolResult:
    return wire.CallToolResult(
        content=[wire.TextContent(text=compact_json(answer.body))],
        structured_content=None if answer.is_error else answer.body,
        is_error=answer.is_error,
    )


#: Seconds to wait for the database. After that, only the tools for plans are listed.
_LOOKUP_SECONDS: Final = 2.0


@dataclass(slots=True)
class RunTools:
    """Decides whether the tools for runs are listed in the profile `auto`.

    They are listed once the org has a workflow. Over HTTP, each request for the list checks whether
    the org has a workflow. Over stdio, the list is answered before the database is up, so a
    notification tells the client when the tools are added.
    """

    gateway: ToolGateway
    #: Whether there is one client, on a persistent connection.
    persistent: bool
    _are_joined: bool = False
    _has_news: asyncio.Event = field(default_factory=asyncio.Event)
    _watch: asyncio.Task[None] | None = None

    async def are_listed(self, context: Context) -> bool:
        if self.persistent:
            self._watch = self._watch or asyncio.create_task(self._announce(context.session))
            return self._are_joined
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                return await self.gateway.has_workflows(context.request)
        except (WaybookError, TimeoutError):
            return False

    async def _announce(self, session: ServerSession) -> None:
        bus, org_id = await self.gateway.event_bus(None)
        unsubscribe = bus.subscribe(org_id, self)
        try:
            while not await self.gateway.has_workflows(None):
                await self._has_news.wait()
                self._has_news.clear()
        finally:
            unsubscribe()
        self._are_joined = True
        await session.send_tool_list_changed()

    def on_event(self, change: ChangeEvent) -> None:
        if change.kind == RUN:
            self._has_news.set()

    def on_gap(self) -> None:
        """Check again whether the org has a workflow, because events were lost."""
        self._has_news.set()

    def on_close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()


#: Clients choose their names, so the length is limited.
MAX_CLIENT_LENGTH: Final = 80


def client_name(context: Context) -> str | None:
    params = context.session.client_params
    if params is not None:
        return clean_name(params.client_info.name)
    agent = context.request.headers.get("user-agent", "") if context.request else ""
    return clean_name(product_of(agent))


def product_of(user_agent: str) -> str:
    """Return the first product name in a User-Agent header, without its version.

    >>> product_of("claude-code/2.1.3 (cli)"), product_of("node"), product_of("")
    ('claude-code', 'node', '')
    """
    return user_agent.partition("/")[0].partition("(")[0]


def clean_name(name: str) -> str | None:
    r"""Return a name on one line, cut and with secrets masked, or None if nothing is left.

    >>> clean_name(" Cursor\n"), clean_name("\0")
    ('Cursor', None)
    """
    printable = "".join(character if character.isprintable() else " " for character in name)
    return redact(" ".join(printable.split()))[:MAX_CLIENT_LENGTH] or None


TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"


def extensions_of(context: Context) -> Mapping[str, object]:
    """Return the extensions of the protocol that the client declares."""
    capabilities = context.session.client_capabilities
    return (capabilities and capabilities.extensions) or {}


def declares_tasks(context: Context) -> bool:
    is_modern = context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
    return is_modern and TASKS_EXTENSION in extensions_of(context)


def require_tasks(context: Context) -> None:
    if not declares_tasks(context):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        message = f"This request needs a client that declares the extension {TASKS_EXTENSION}"
        raise MCPError(wire.MISSING_REQUIRED_CLIENT_CAPABILITY, message, needed)


log = logging.getLogger(__name__)

ToolResult = wire.CallToolResult | wire.InputRequiredResult

REVIEW: Final = "request_user_review"
ELICITATION_KEY: Final = "decision"
#: Maximum length of a message in a form.
MAX_MESSAGE_LENGTH: Final = 4_000
#: Maximum wait for a decision. It is below 60 seconds, the usual limit for a tool call.
MAX_FORM_WAIT_SECONDS: Final = 45.0
MAX_OPEN_FORMS: Final = 8
FORM: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "modify sends it back with your feedback; reject ends the plan",
            "enum": ["approve", "modify", "skip", "reject"],
        },
        "feedback": {"type": "string", "title": "Feedback"},
    },
    "required": ["decision"],
}

_POLL_INTERVAL_MS: Final = 5_000
#: Errors for a decision that came too late and is ignored.
_OUTDATED: Final = frozenset({"NOT_AWAITING_REVIEW", "PLAN_TERMINAL"})


class _TaskParams(wire.RequestParams):
    task_id: str


class _UpdateTaskParams(_TaskParams):
    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReviewElicitation:
    gateway: ToolGateway
    persistent: bool = False
    _open_forms: set[asyncio.Task[wire.CallToolResult]] = field(default_factory=set)

    def on_close(self) -> None:
        for form in self._open_forms:
            form.cancel()

    async def call(self, context: Context, params: wire.CallToolRequestParams) -> ToolResult:
        """Call a tool. Only `request_user_review` may be answered with a form."""
        if params.name == REVIEW:
            return await self.review(context, params)
        answer = await self._call_tool(context, params.name, params.arguments or {})
        return to_tool_result(answer)

    async def _call_tool(
        self, context: Context, tool: str, arguments: Mapping[str, object]
    ) -> Answer:
        return await self.gateway.call_tool(context.request, tool, arguments, client_name(context))

    async def review(self, context: Context, params: wire.CallToolRequestParams) -> ToolResult:
        arguments = params.arguments or {}
        if params.request_state is not None:
            response = (params.input_responses or {}).get(ELICITATION_KEY)
            # The client sends back the state that it got for its first call. The client may have
            # changed this state, so check its type.
            state = None
            with suppress(orjson.JSONDecodeError):
                state = orjson.loads(params.request_state)
            if not isinstance(state, dict):
                raise invalid_params("Invalid requestState")
            return await self._submit(context, arguments, state, response)
        answer = await self._call_tool(context, REVIEW, arguments)
        if answer.is_error or not supports_forms(context) or declares_tasks(context):
            # A client that supports tasks gets the form later, with the task of the review.
            return to_tool_result(answer)
        if context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._send_form(context, arguments, answer)
        form = wire.ElicitRequestFormParams(
            message=form_message(arguments), requested_schema={**FORM}
        )
        return wire.InputRequiredResult(
            input_requests={ELICITATION_KEY: wire.ElicitRequest(params=form)},
            request_state=orjson.dumps(answer.body).decode(),
        )

    async def _send_form(
        self, context: Context, arguments: Mapping[str, Any], answer: Answer
    ) -> wire.CallToolResult:
        if not self.persistent or len(self._open_forms) >= MAX_OPEN_FORMS:
            return to_tool_result(answer)

        async def decide() -> wire.CallToolResult:
            try:
                response = await context.session.elicit_form(form_message(arguments), {**FORM})
            except (MCPError, ValidationError) as error:
                log.info("the client did not show the form of a review: %s", redact(str(error)))
                return to_tool_result(answer)
            return await self._submit(context, arguments, answer.body, response)

        form = asyncio.create_task(decide())
        self._open_forms.add(form)
        form.add_done_callback(self._open_forms.discard)
        await asyncio.wait({form}, timeout=MAX_FORM_WAIT_SECONDS)
        return form.result() if form.done() else to_tool_result(answer)

    async def _submit(
        self,
        context: Context,
        arguments: Mapping[str, Any],
        first_reply: Mapping[str, object],
        response: object,
    ) -> wire.CallToolResult:
        """Submit the decision from a form, or return `first_reply` if the person declined."""
        if not isinstance(response, wire.ElicitResult) or response.action != "accept":
            return to_tool_result(Answer({**first_reply}))
        content = response.content or {}
        decision: dict[str, object] = {key: value for key, value in content.items() if value}
        decision |= {name: first_reply.get(name) for name in ("planId", "reviewId")}
        session = {"sessionId": arguments["sessionId"]} if arguments.get("sessionId") else {}
        call = {**decision, "place": "form", **session}
        answer = await self._call_tool(context, "submit_user_decision", call)
        return to_tool_result(answer if answer.is_error else Answer({**first_reply, **answer.body}))

    def serve_tasks(self, server: Server[None]) -> None:
        """Offer a task for each review, to clients that declare the tasks extension."""
        server.extensions[TASKS_EXTENSION] = {}
        call_tool = server.get_request_handler("tools/call")
        if call_tool is None:
            raise LookupError("the server has no handler for tools/call")

        async def call(context: Context, params: wire.CallToolRequestParams) -> HandlerResult:
            result = await call_tool.handler(context, params)
            is_review = params.name == REVIEW and declares_tasks(context)
            return await self.start(context, result) if is_review else result

        async def hide_from_older_revisions(ctx: Context, call_next: CallNext) -> HandlerResult:
            # Only older revisions of the MCP specification use `initialize`. They have no
            # extensions.
            result = await call_next(ctx)
            match result:
                case {"capabilities": {"extensions": dict() as extensions}}:
                    if ctx.method == "initialize":
                        extensions.pop(TASKS_EXTENSION, None)
            return result

        server.add_request_handler("tools/call", wire.CallToolRequestParams, call)
        server.add_request_handler("tasks/get", _TaskParams, self.get)
        server.add_request_handler("tasks/update", _UpdateTaskParams, self.update)
        server.add_request_handler("tasks/cancel", _TaskParams, self.cancel)
        server.middleware.append(hide_from_older_revisions)

    async def start(self, context: Context, result: HandlerResult) -> HandlerResult:
        """Return a task if the call requested a review, otherwise the result of the call."""
        body = result.structured_content if isinstance(result, wire.CallToolResult) else None
        review_id = (body or {}).get("reviewId")
        if not isinstance(review_id, str):
            return result
        try:
            dispatcher, caller = await self.gateway.enter(context.request)
            review = await dispatcher.read_review(caller, review_id)
        except WaybookError:
            return result
        if review.is_decided:
            return to_tool_result(Answer(review.reply))
        return {"resultType": "task", **_task_of(review)} if review.ended_at is None else result

    async def get(self, context: Context, params: _TaskParams) -> dict[str, Any]:
        review = await self._review(context, params)
        task = _task_of(review)
        if review.is_decided:
            result = to_tool_result(Answer(review.reply))
            shape = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            return {**task, "status": "completed", "result": shape}
        if review.ended_at is not None:
            return {**task, "status": "cancelled"}
        if review.may_decide and supports_forms(context):
            message = form_message({"summary": review.summary, "questions": [*review.questions]})
            form = {"mode": "form", "message": message, "requestedSchema": FORM}
            request = {ELICITATION_KEY: {"method": "elicitation/create", "params": form}}
            return {**task, "status": "input_required", "inputRequests": request}
        return task

    async def update(self, context: Context, params: _UpdateTaskParams) -> dict[str, Any]:
        """Submit the decision that a person entered in the form, if the review is still open."""
        review = await self._review(context, params)
        response = params.input_responses.get(ELICITATION_KEY)
        if review.ended_at is not None or response is None:
            return {}
        try:
            form = wire.ElicitResult.model_validate(response)
        except ValidationError:
            raise invalid_params(f"inputResponses.{ELICITATION_KEY} is not valid") from None
        if form.action != "accept":
            return {}
        content = form.content or {}
        decision = {name: content[name] for name in FORM["properties"] if content.get(name)}
        named = {name: review.reply[name] for name in ("planId", "reviewId")}
        call = {**decision, **named, "place": "task"}
        answer = await self._call_tool(context, "submit_user_decision", call)
        if answer.is_error and code_of(answer) not in _OUTDATED:
            raise error_from_answer(answer, "The decision was not accepted")
        return {}

    async def cancel(self, context: Context, params: _TaskParams) -> dict[str, Any]:
        """Acknowledge the cancellation of a task. The review stays open."""
        await self._review(context, params)
        return {}

    async def _review(self, context: Context, params: _TaskParams) -> ReadableReview:
        if context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(wire.METHOD_NOT_FOUND, "Method not found", context.method)
        require_tasks(context)
        headers, named = context.request and context.request.headers, MCP_NAME_HEADER
        if headers is not None and decode_header_value(headers.get(named)) != params.task_id:
            fault = f"{named} header does not match the request body's 'taskId' parameter"
            raise MCPError(wire.HEADER_MISMATCH, fault)
        try:
            dispatcher, caller = await self.gateway.enter(context.request)
            return await dispatcher.read_review(caller, params.task_id)
        except WaybookError as error:
            answer = Answer(error.as_json(), is_error=True)
            if code_of(answer) == "NOT_FOUND":
                raise invalid_params("Task not found", taskId=params.task_id) from None
            raise error_from_answer(answer, "The task cannot be read now") from None


def supports_forms(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    can = capabilities.elicitation if capabilities else None
    # A client that supports elicitation without naming a mode is assumed to support forms.
    return can is not None and (can.form is not None or can.url is None)


def form_message(arguments: Mapping[str, object]) -> str:
    questions = arguments.get("questions")
    lines = [f"? {question}" for question in questions] if isinstance(questions, list) else []
    return "\n".join([str(arguments.get("summary")), *lines])[:MAX_MESSAGE_LENGTH]


def _task_of(review: ReadableReview) -> dict[str, Any]:
    message = f"A person decides: {review.reply['reviewUrl']}"
    if review.is_decided:
        message = f"A person decided: {review.reply['decision']}."
    elif review.ended_at is not None:
        message = "The plan ended before a person decided."
    return {
        "taskId": review.reply["reviewId"],
        "status": "working",
        "statusMessage": message,
        "createdAt": review.requested_at.astimezone(UTC).isoformat(),
        "lastUpdatedAt": (review.ended_at or review.requested_at).astimezone(UTC).isoformat(),
        "ttlMs": None,
        "pollIntervalMs": _POLL_INTERVAL_MS,
    }
