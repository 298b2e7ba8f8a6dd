"""Errors of the client library, and the conversion of error replies to exceptions."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from waybook import errors
from waybook.errors import NextCall, StaleAttempt, Unavailable, WaybookError

INVALID_PARAMS = -32602

KINDS: Mapping[str, type[WaybookError]] = {
    kind.code: kind
    for kind in (
        errors.BadExpression,
        errors.BadRecipe,
        errors.Busy,
        errors.DiskFull,
        errors.Forbidden,
        errors.IdempotencyConflict,
        errors.InvalidTransition,
        errors.InvalidInput,
        errors.InvalidStepReference,
        errors.NotAwaitingReview,
        errors.NotFound,
        errors.NotModifiable,
        errors.PlanTerminal,
        errors.RateLimited,
        errors.RunCanceled,
        errors.StaleAttempt,
        errors.StalePlan,
        errors.TooLarge,
        errors.Unavailable,
    )
}


class Unreachable(Unavailable):
    """A call got no answer; it may or may not have taken effect."""

    code = "UNAVAILABLE"
    # The client's own backoff decides when to retry.
    retry_after: ClassVar[int | None] = None


class HoldLost(StaleAttempt):
    """The client no longer holds the step or job: it was taken back, taken over or ended."""

    code = "STALE_ATTEMPT"


class NotSubmitted(RuntimeError):
    """Error for a block that ended without a call of `submit`, `review` or `fail`."""


class NothingReady(Exception):
    """No step or job to claim: the work is over, or an agent or a person has to act first."""

    def __init__(self, reply: Mapping[str, Any]) -> None:
        self.status = str(reply["status"])
        self.reply = reply
        reason = reply.get("reason") or (reply.get("next") or {}).get("why")
        super().__init__(f"{self.status}: {reason}" if reason else self.status)


def error_from(payload: Mapping[str, Any]) -> WaybookError:
    """Convert the error in a tool's reply to the exception that the server raised.

    >>> error_from({"code": "STALE_ATTEMPT", "message": "attempt 2 runs", "details": {"now": 2}})
    StaleAttempt('attempt 2 runs')
    """
    kind = KINDS.get(str(payload["code"]), WaybookError)
    error = kind.__new__(kind)
    following = payload.get("next")
    call = NextCall(**following) if following else None
    WaybookError.__init__(error, str(payload["message"]), next_call=call)
    # A retry delay applies only if the server sent one.
    error.details = dict(payload.get("details") or {})
    return error


def error_in_result(result: Mapping[str, Any]) -> WaybookError:
    return error_from(json.loads(result["content"][0]["text"])["error"])


def error_in_answer(error: Mapping[str, Any]) -> WaybookError:
    """Convert the `error` of an HTTP or JSON-RPC answer to an exception."""
    match error:
        case {"code": str()}:
            return error_from(error)
        case {"data": {"error": {"code": str()} as inner}}:
            return error_from(inner)
    message = str(error.get("message", ""))
    if error.get("code") == INVALID_PARAMS:
        return errors.InvalidInput(message)
    return permanent_failure(message)


def permanent_failure(message: str) -> Unavailable:
    """Return an error that is not retried, because the same request would get the same answer."""
    error = Unavailable(message)
    error.details.pop("retryAfter", None)
    return error


def retry_delay(error: WaybookError) -> float | None:
    """Return the seconds after which the server accepts the call again, or None if unknown.

    >>> retry_delay(errors.Busy()), retry_delay(errors.NotFound())
    (1.0, None)
    """
    match error.details.get("retryAfter"):
        case bool():
            return None
        case int() | float() as seconds:
            return float(seconds)
    return None
