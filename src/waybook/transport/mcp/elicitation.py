"""Let people decide reviews in the chat: with a form (MCP elicitation), or as a task.

The review is stored first, so it stays open if the person declines or never answers the form.

A client that supports the extension `io.modelcontextprotocol/tasks` gets a task instead of the
reply to `request_user_review`, and polls the task until a person has decided.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final

import mcp_types as wire
import orjson
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from waybook.app.request.caller import Answer, ReadableReview
from waybook.errors import WaybookError
from waybook.redaction import redact
from waybook.transport.gateway import ToolGateway
from waybook.transport.jsonrpc import Context, code_of, error_from_answer, invalid_params
from waybook.transport.mcp.tools import (
    TASKS_EXTENSION,
    client_name,
    declares_tasks,
    require_tasks,
    to_tool_result,
)

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
