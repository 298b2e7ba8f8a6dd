"""Review decisions in the chat, by MCP elicitation (forms shown by the client).

The review is stored first, and then the call is answered with a form. The client shows it and
repeats the call with the user's input; the server keeps no state in between. If the user declines
or never answers, an ordinary open review remains. Only revisions in which calls can be repeated
this way support it: in older ones the call would block until the user decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as wire
import orjson
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from waybook.app.request.caller import Answer
from waybook.transport.errors import Context, invalid_params
from waybook.transport.gateway import ToolGateway
from waybook.transport.mcp.tools import to_tool_result

REVIEW: Final = "request_user_review"
ELICITATION_KEY: Final = "decision"
#: Maximum length of the message in a form. The length is limited, because forms are unsuitable for
#: long texts.
MAX_MESSAGE_LENGTH: Final = 4_000
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
    """Handler for review requests that a person can decide during the same tool call."""

    gateway: ToolGateway

    async def review(
        self, context: Context, params: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        """Request a review; if the client supports forms, elicit the decision and submit it."""
        arguments = params.arguments or {}
        if params.request_state is not None:
            return await self._heard(context, params, _state(params.request_state))
        answer = await self.gateway.call_tool(context.request, REVIEW, arguments)
        if answer.is_error or not supports_elicitation(context):
            return to_tool_result(answer)
        form = wire.ElicitRequestFormParams(
            message=form_message(arguments), requested_schema={**FORM}
        )
        return wire.InputRequiredResult(
            input_requests={ELICITATION_KEY: wire.ElicitRequest(params=form)},
            request_state=orjson.dumps(answer.body).decode(),
        )

    async def _heard(
        self, context: Context, params: wire.CallToolRequestParams, first_reply: dict[str, object]
    ) -> wire.CallToolResult:
        response = (params.input_responses or {}).get(ELICITATION_KEY)
        if not isinstance(response, wire.ElicitResult) or response.action != "accept":
            return to_tool_result(Answer(first_reply))
        content = {key: value for key, value in (response.content or {}).items() if value}
        session = (params.arguments or {}).get("sessionId")
        named = {"planId": first_reply.get("planId"), "reviewId": first_reply.get("reviewId")}
        decision = {
            **content,
            **named,
            "place": "form",
            **({"sessionId": session} if session else {}),
        }
        answer = await self.gateway.call_tool(context.request, "submit_user_decision", decision)
        return to_tool_result(answer if answer.is_error else Answer({**first_reply, **answer.body}))


def supports_elicitation(context: Context) -> bool:
    """Return whether the MCP client can show forms and repeat a call with the user's input."""
    session = context.session
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    can = session.client_capabilities.elicitation if session.client_capabilities else None
    # A client that declares neither the form mode nor the URL mode is assumed to support forms.
    return can is not None and (can.form is not None or can.url is None)


def form_message(arguments: Mapping[str, object]) -> str:
    """Return the text above the review form: the summary and the questions."""
    questions = arguments.get("questions")
    lines = [f"? {question}" for question in questions] if isinstance(questions, list) else []
    return "\n".join([str(arguments.get("summary")), *lines])[:MAX_MESSAGE_LENGTH]


def _state(text: str) -> dict[str, object]:
    """Parse the state from the first call, which clients can forge, so its ids are checked."""
    try:
        state = orjson.loads(text)
    except orjson.JSONDecodeError:
        state = None
    if not isinstance(state, dict):
        raise invalid_params("Invalid requestState")
    return state
