"""Protocol errors: for requests that are not tool calls, and in place of what must not leak."""

import logging
from typing import Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from waybook.redaction import redacted, redacted_json
from waybook.usecases.exchange import Answer

Context = ServerRequestContext[None]

CALLERS_FAULT: Final = frozenset({"NOT_FOUND", "INVALID_INPUT", "TOO_LARGE"})

logger = logging.getLogger(__name__)


def code_of(answer: Answer) -> str | None:
    """The code of an answer that is an error, else nothing."""
    match answer.body:
        case {"error": {"code": str() as code}} if answer.is_error:
            return code
    return None


def invalid(message: str, **data: object) -> MCPError:
    """The caller asked for something that cannot be."""
    return MCPError(INVALID_PARAMS, redacted(message), redacted_json(data) or None)


def refused(answer: Answer, message: str) -> MCPError:
    """The protocol's error for an answer that is one; it carries the answer's own."""
    callers_fault = code_of(answer) in CALLERS_FAULT
    return MCPError(INVALID_PARAMS if callers_fault else INTERNAL_ERROR, message, answer.body)


async def keep_internals(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Let no exception's own words reach the wire; older revisions would send them."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        cover_secrets(error)
        raise
    except ValidationError:
        raise
    except Exception as error:
        logger.exception("the handler of %s broke", ctx.method)
        raise MCPError(INTERNAL_ERROR, "Internal error") from error


def cover_secrets(error: MCPError) -> None:
    """Let the library's own words give nothing back either, such as the name of a method."""
    told = {"message": redacted(error.message), "data": redacted_json(error.data)}
    error.error = error.error.model_copy(update=told)
