"""Review decisions in the chat, through MCP elicitation.

The review is stored first, so it stays open if the user declines or never answers the form.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as wire
import orjson
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from waybook.app.request.caller import Answer
from waybook.redaction import redact
from waybook.transport.errors import Context, invalid_params
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.tools import client_name, declares_tasks, to_tool_result

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


@dataclass(frozen=True, slots=True)
class ReviewElicitation:
    gateway: ToolGateway
    persistent: bool = False
    _open_forms: set[asyncio.Task[wire.CallToolResult]] = field(default_factory=set)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
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
            # Parse the state from the first call. Clients can forge it, so its type is checked.
            try:
                state = orjson.loads(params.request_state)
            except orjson.JSONDecodeError:
                state = None
            if not isinstance(state, dict):
                raise invalid_params("Invalid requestState")
            return await self._submit(context, arguments, state, response)
        answer = await self._call_tool(context, REVIEW, arguments)
        if answer.is_error or not supports_forms(context) or declares_tasks(context):
            # A client that supports tasks gets the form with the task.
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
        """Submit the decision in a form. Without a decision, return the reply to the first call."""
        if not isinstance(response, wire.ElicitResult) or response.action != "accept":
            return to_tool_result(Answer({**first_reply}))
        content = {key: value for key, value in (response.content or {}).items() if value}
        session = arguments.get("sessionId")
        named = {"planId": first_reply.get("planId"), "reviewId": first_reply.get("reviewId")}
        decision = {
            **content,
            **named,
            "place": "form",
            **({"sessionId": session} if session else {}),
        }
        answer = await self._call_tool(context, "submit_user_decision", decision)
        return to_tool_result(answer if answer.is_error else Answer({**first_reply, **answer.body}))


def supports_forms(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    can = capabilities.elicitation if capabilities else None
    # A client that names neither mode is assumed to support forms.
    return can is not None and (can.form is not None or can.url is None)


def form_message(arguments: Mapping[str, object]) -> str:
    questions = arguments.get("questions")
    lines = [f"? {question}" for question in questions] if isinstance(questions, list) else []
    return "\n".join([str(arguments.get("summary")), *lines])[:MAX_MESSAGE_LENGTH]
