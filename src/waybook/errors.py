"""All errors raised by Waybook, each with the error code that clients receive.

Callers read the docstring of a class, because it is the default message of the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from waybook.redaction import redact, redact_json

MAX_MESSAGE_LENGTH: Final = 4_000
#: Beginning of every suggestion to repeat the last call.
SAME_CALL: Final = "Retry the same call"
#: End of the message of an error without a suggestion.
NO_CALL_HELPS: Final = "(No other call helps; tell your user.)"


@dataclass(frozen=True, slots=True)
class NextCall:
    """A suggested next call. It may be destructive only if it repeats the last call."""

    tool: str
    args: Mapping[str, object]
    why: str

    @property
    def is_retry(self) -> bool:
        """Return whether this repeats the last call."""
        return self.why.startswith(SAME_CALL)


class WaybookError(Exception):
    """The call failed."""

    code: ClassVar[str] = "UNAVAILABLE"
    #: Seconds after which to retry, if a retry can help.
    retry_after: ClassVar[int | None] = None

    def __init__(
        self, message: str = "", *, next_call: NextCall | None = None, **details: object
    ) -> None:
        """Store the message, or by default the class docstring.

        Secrets in the message are masked.
        """
        self.message = redact((message or type(self).__doc__ or "").strip()[:MAX_MESSAGE_LENGTH])
        if self.retry_after is not None:
            details.setdefault("retryAfter", self.retry_after)
        self.details = details
        self.next_call = next_call
        super().__init__(self.message)

    def as_json(self) -> dict[str, object]:
        call = self.next_call
        following = call and {"tool": call.tool, "args": dict(call.args), "why": call.why}
        is_final = call is None and isinstance(self, Forbidden)
        return {
            "error": {
                "code": self.code,
                "message": f"{self.message} {NO_CALL_HELPS}" if is_final else self.message,
                "details": redact_json(self.details),
                "next": redact_json(following),
            }
        }


class NotFound(WaybookError):
    """Not found in this org."""

    code = "NOT_FOUND"


class Refused(WaybookError):
    """The call was refused; nothing was written."""

    code = "INVALID_INPUT"


class InvalidInput(Refused):
    """The arguments do not match the tool's schema."""


class TooLarge(InvalidInput):
    """The arguments exceed a limit."""

    code = "TOO_LARGE"


class InvalidStepReference(InvalidInput):
    """A named step does not exist in this plan."""

    code = "INVALID_STEP_REFERENCE"


class BadExpression(InvalidInput):
    """A branching condition does not compile."""

    code = "BAD_EXPRESSION"


class InvalidTransition(Refused):
    """The status does not allow this change."""

    code = "INVALID_TRANSITION"

    def __init__(
        self,
        message: str = "",
        *,
        old: str,
        new: str,
        next_call: NextCall | None = None,
        **details: object,
    ) -> None:
        super().__init__(message, next_call=next_call, **details)
        self.details.update({"from": str(old), "to": str(new)})


class PlanTerminal(Refused):
    """The plan is closed and cannot be changed."""

    code = "PLAN_TERMINAL"


class RunCanceled(Refused):
    """The run is canceled and cannot be changed."""

    code = "RUN_CANCELED"


class NotModifiable(Refused):
    """The plan cannot be modified in its present status."""

    code = "NOT_MODIFIABLE"


class NotAwaitingReview(Refused):
    """There is no open review to decide."""

    code = "NOT_AWAITING_REVIEW"


class StaleAttempt(Refused):
    """The step or job has moved on to another attempt."""

    code = "STALE_ATTEMPT"


class StalePlan(Refused):
    """The plan has changed since it was read."""

    code = "STALE_PLAN"


class IdempotencyConflict(Refused):
    """The idempotency key was used before with other arguments."""

    code = "IDEMPOTENCY_CONFLICT"


class Forbidden(Refused):
    """The caller may not do this."""

    code = "FORBIDDEN"


class Unauthenticated(Forbidden):
    """A valid credential is required: it is missing, unknown, expired or revoked."""


class RateLimited(Refused):
    """Too many calls in too short a time."""

    code = "RATE_LIMITED"
    retry_after = 1


class BadRecipe(WaybookError):
    """The steps of the workflow definition do not form a valid graph."""

    code = "BAD_RECIPE"


class Busy(WaybookError):
    """Another call is changing the same data; nothing was written, try again."""

    code = "BUSY"
    retry_after = 1


class DiskFull(Busy):
    """The disk of the database is full; nothing was written. Free space there, then try again."""

    code = "DISK_FULL"
    retry_after = 30


class Unavailable(WaybookError):
    """The database is not reachable; try again."""

    retry_after: ClassVar[int | None] = 5


class EndpointFailed(Unavailable):
    """The model endpoint returned no usable answer."""

    # It is unknown when the endpoint will work again.
    retry_after: ClassVar[int | None] = None
    #: Delay in seconds that the endpoint asked for, which callers of tools do not learn.
    asked_delay: float | None = None


class EndpointUnreachable(EndpointFailed):
    """The model endpoint gave no complete answer."""


class Misconfigured(WaybookError):
    """The settings are not valid."""

    code = "INVALID_INPUT"


class StaleCredential(Exception):
    """A cached credential has changed or is no longer valid. The call wrote nothing."""
