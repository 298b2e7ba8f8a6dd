"""Protocol errors: for requests that are not tool calls, and in place of what must not leak."""

import logging
from typing import Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from waybook.app.request.caller import Answer
from waybook.redaction import redact, redact_json

Context = ServerRequestContext[None]

CLIENT_ERRORS: Final = frozenset({"NOT_FOUND", "INVALID_INPUT", "TOO_LARGE"})
#: How much of a name or an address is said back to whoever sent it.
MAX_ECHO_LENGTH: Final = 500

logger = logging.getLogger(__name__)


def code_of(answer: Answer) -> str | None:
    """The code of an answer that is an error, else nothing."""
    match answer.body:
        case {"error": {"code": str() as code}} if answer.is_error:
            return code
    return None


def invalid_params(message: str, **data: object) -> MCPError:
    """The caller asked for something that cannot be."""
    return MCPError(INVALID_PARAMS, shorten(message), _brief_data(data) or None)


def error_from_answer(answer: Answer, message: str) -> MCPError:
    """The protocol's error for an answer that is one; it carries the answer's own."""
    callers_fault = code_of(answer) in CLIENT_ERRORS
    return MCPError(INVALID_PARAMS if callers_fault else INTERNAL_ERROR, message, answer.body)


async def hide_internal_errors(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Let no exception's own words reach the wire; older revisions would send them."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        redact_error(error)
        raise
    except ValidationError:
        raise
    except Exception as error:
        logger.exception("the handler of %s broke", ctx.method)
        raise MCPError(INTERNAL_ERROR, "Internal error") from error


def redact_error(error: MCPError) -> None:
    """Let the library's own words give nothing back either, such as the name of a method."""
    told = {"message": shorten(error.message), "data": _brief_data(error.data)}
    error.error = error.error.model_copy(update=told)


def shorten(text: str) -> str:
    """The text without secrets, and no longer than it takes to recognise it.

    >>> shorten("Unknown tool: " + 1000 * "x")[-4:], len(shorten(1000 * "x"))
    ('xxx…', 501)
    """
    # Somewhat more is looked at, so that no secret is cut in two and then taken for none.
    said = redact(text[: 4 * MAX_ECHO_LENGTH])
    return said if len(said) <= MAX_ECHO_LENGTH else f"{said[:MAX_ECHO_LENGTH]}…"


def _brief_data(data: object) -> object:
    """What an error carries; an address or a name in it is as brief as the message is."""
    match data:
        case dict():
            return {
                name: shorten(told) if isinstance(told, str) else redact_json(told)
                for name, told in data.items()
            }
        case str():
            return shorten(data)
        case _:
            return redact_json(data)
