"""The next call of an error that has no better one: the same again, and what to change.

It names arguments of the tool and nothing else: what somebody sent stands in the message and in the
details, where it is data, and never in what is advised.
"""

from collections.abc import Iterable, Mapping, Sequence

from waybook.errors import (
    SAME_CALL,
    BadRecipe,
    Busy,
    EndpointFailed,
    IdempotencyConflict,
    InvalidInput,
    NextCall,
    RateLimited,
    TooLarge,
    Unavailable,
    WaybookError,
)
from waybook.usecases.exchange import Answer
from waybook.usecases.tool import RUNS, Tool

MAX_NAMES_LISTED = 5


def error_answer(error: WaybookError, tool: Tool, given: Mapping[str, object]) -> Answer:
    """An error as the answer to a call, with the call that makes sense now."""
    error.next_call = error.next_call or retry_call(error, tool, given)
    return Answer(error.as_json(), is_error=True)


def retry_call(error: WaybookError, tool: Tool, given: Mapping[str, object]) -> NextCall | None:
    """The same call, if it can come to something, and how."""
    match error:
        case Busy() | RateLimited():
            return NextCall(tool.name, {}, _later(error, tool))
        case Unavailable() if not isinstance(error, EndpointFailed):
            return _once_it_is_back(error, tool, given)
        case IdempotencyConflict():
            why = "with a new idempotencyKey if this is a new act, else with the first arguments"
        case TooLarge():
            why = f"with less in {_named(error, tool) or 'it'}"
        case InvalidInput() | BadRecipe():
            why = f"with {_named(error, tool) or 'what the message names'} put right"
        case _:
            return None
    return NextCall(tool.name, {}, f"{SAME_CALL}, {why}")


def _once_it_is_back(
    error: Unavailable, tool: Tool, given: Mapping[str, object]
) -> NextCall | None:
    """The same again where it cannot count twice; else a look whether it has counted."""
    if tool.reads_only or given.get("idempotencyKey"):
        return NextCall(tool.name, {}, _later(error, tool))
    look = "list_dags" if tool.profiles == RUNS else "list_active_plans"
    return NextCall(look, {}, "see whether it was done, before you repeat it")


def _later(error: WaybookError, tool: Tool) -> str:
    seconds = error.details["retryAfter"]
    key = "" if tool.reads_only else ", with the same idempotencyKey"
    return f"{SAME_CALL} after {seconds} s{key}"


def _named(error: WaybookError, tool: Tool) -> str:
    """The arguments at fault, as far as the tool has them."""
    known = {str(field.alias) for field in tool.arguments.model_fields.values()}
    named = dict.fromkeys(name for name in _blamed(error.details) if name in known)
    *others, last = [*named][:MAX_NAMES_LISTED] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _blamed(details: Mapping[str, object]) -> Iterable[str]:
    """What the details say is at fault: one argument, or several and places in them."""
    yield str(details.get("argument"))
    faults = details.get("faults")
    for one in faults if isinstance(faults, Sequence) else ():
        yield str(one["at"]).partition(".")[0]
