"""Remove internal details and secrets from the errors of the MCP protocol."""

import logging
from typing import Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from waybook.app.request.caller import Answer
from waybook.redaction import redact, redact_json

Context = ServerRequestContext[None]

_CLIENT_ERRORS: Final = frozenset({"NOT_FOUND", "INVALID_INPUT", "TOO_LARGE"})
#: Maximum number of characters of a client's text that an error message quotes.
MAX_ECHO_LENGTH: Final = 500

logger = logging.getLogger(__name__)


def code_of(answer: Answer) -> str | None:
    match answer.body:
        case {"error": {"code": str() as code}} if answer.is_error:
            return code
    return None


def invalid_params(message: str, **data: object) -> MCPError:
    return MCPError(INVALID_PARAMS, _shorten(message), _brief_data(data) or None)


def error_from_answer(answer: Answer, message: str) -> MCPError:
    callers_fault = code_of(answer) in _CLIENT_ERRORS
    return MCPError(INVALID_PARAMS if callers_fault else INTERNAL_ERROR, message, answer.body)


async def hide_internal_errors(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Replace the text of an unexpected exception with a generic error message."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        fields = {"message": _shorten(error.message), "data": _brief_data(error.data)}
        error.error = error.error.model_copy(update=fields)
        raise
    except ValidationError:
        raise
    except Exception as error:
        logger.exception("the handler of %s broke", ctx.method)
        raise MCPError(INTERNAL_ERROR, "Internal error") from error


def _shorten(text: str) -> str:
    """Return the text with secrets masked, cut to `MAX_ECHO_LENGTH` characters.

    >>> _shorten("Unknown tool: " + 1000 * "x")[-4:], len(_shorten(1000 * "x"))
    ('xxx…', 501)
    """
    # Mask secrets before cutting the text, because `redact` does not recognize half a secret.
    redacted = redact(text[: 4 * MAX_ECHO_LENGTH])
    return redacted if len(redacted) <= MAX_ECHO_LENGTH else f"{redacted[:MAX_ECHO_LENGTH]}…"


def _brief_data(data: object) -> object:
    match data:
        case dict():
            return {
                name: _shorten(value) if isinstance(value, str) else redact_json(value)
                for name, value in data.items()
            }
        case str():
            return _shorten(data)
        case _:
            return redact_json(data)
