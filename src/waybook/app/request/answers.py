"""Completes answers: adds suggested calls and warnings about hidden characters, and limits sizes.

If an error suggests the same call again, the suggestion contains the arguments that are short and
correct, so that an agent only has to add or correct the others. A reply that is too large is
replaced by an error that suggests a call with a smaller reply. On the command line, the size is not
limited, because a large reply there delays no other caller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import orjson

from waybook.app.request.arguments import is_blank
from waybook.app.request.caller import MAX_REPLY_BYTES, Answer, Caller
from waybook.app.request.tool import PLAN, RUNS, Tool
from waybook.core.decision_context import Channel
from waybook.core.hidden_characters import FLAG, hidden_by_field, may_contain_hidden
from waybook.errors import (
    SAME_CALL,
    BadRecipe,
    Busy,
    EndpointFailed,
    Forbidden,
    IdempotencyConflict,
    InvalidInput,
    NextCall,
    NotFound,
    RateLimited,
    TooLarge,
    Unavailable,
    WaybookError,
)
from waybook.json_values import Json

_MAX_NAMES_LISTED = 5
#: Longer texts and lists are not repeated in a suggested call.
_MAX_REPEATED_LENGTH = 200
_MAX_REPEATED_ITEMS = 20


def error_answer(error: WaybookError, tool: Tool, arguments: Mapping[str, object]) -> Answer:
    if error.next_call is None:
        error.next_call = retry_call(error, tool, arguments)
    return Answer(error.as_json(), is_error=True)


def retry_call(error: WaybookError, tool: Tool, arguments: Mapping[str, object]) -> NextCall | None:
    """Return the suggested call: the same call again, or a call that lists plans or workflows.

    Return None if the caller lacks a scope, because no call can grant a scope.
    """
    match error:
        case Busy() | RateLimited() | Unavailable() if not isinstance(error, EndpointFailed):
            key = arguments.get("idempotencyKey")
            is_safe = tool.reads_only or (key is not None and not is_blank(key))
            if isinstance(error, Unavailable) and not is_safe:
                why = "See whether the call took effect before you repeat it."
                return NextCall(_list_tool(tool), {}, why)
            with_key = "" if tool.reads_only else ", with the same idempotencyKey"
            why = f" after {error.details['retryAfter']} s{with_key}"
        case IdempotencyConflict():
            why = ", with a new idempotencyKey for a new call, or with the original arguments"
        case TooLarge():
            why = f", with less in {_named(error, tool) or 'it'}"
        case InvalidInput() | BadRecipe():
            why = f", with {_named(error, tool) or 'what the message names'} corrected"
        case NotFound() if tool.profiles == PLAN | RUNS:
            # No tool that lists plans or runs is in both profiles.
            why = f", with {_named(error, tool) or 'the id'} corrected"
        case Forbidden():
            return None
        case _:
            return NextCall(_list_tool(tool), {}, "See what there is.")
    return NextCall(tool.name, _repeated(error, tool, arguments), f"{SAME_CALL}{why}.")


def _list_tool(tool: Tool) -> str:
    return "list_dags" if tool.profiles == RUNS else "list_active_plans"


def _repeated(
    error: WaybookError, tool: Tool, arguments: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments of the suggested call: those given arguments that are short and correct.

    If no argument is left, return the missing required arguments with the value null.
    """
    fields = {str(field.alias): field for field in tool.arguments.model_fields.values()}
    blamed = {*_blamed(error.details)}
    repeated = {
        name: value
        for name, value in arguments.items()
        if name in fields and name not in blamed and _is_short(value)
    }
    return repeated or {
        n: None for n, field in fields.items() if n in blamed and field.is_required()
    }


def _is_short(value: object) -> bool:
    if isinstance(value, list):
        return (
            len(value) <= _MAX_REPEATED_ITEMS
            and all(isinstance(item, str) for item in value)
            and all(map(_is_short, value))
        )
    if isinstance(value, str):
        return len(value) <= _MAX_REPEATED_LENGTH and value.isprintable()
    return isinstance(value, int | float)


def _named(error: WaybookError, tool: Tool) -> str:
    known = {str(field.alias) for field in tool.arguments.model_fields.values()}
    named = dict.fromkeys(name for name in _blamed(error.details) if name in known)
    *others, last = [*named][:_MAX_NAMES_LISTED] or [""]
    return f"{', '.join(others)} and {last}" if others else last


def _blamed(details: Mapping[str, object]) -> Iterable[str]:
    yield str(details.get("argument"))
    faults = details.get("faults")
    for error in faults if isinstance(faults, Sequence) else ():
        yield str(error["at"]).partition(".")[0]


MAX_FLAGGED_REPLY_BYTES = 48_000
_FLAG_BYTES = 400


def _hidden_character_flag(body: Json, room: int) -> dict[str, Json]:
    flag = hidden_by_field(body)
    if len(orjson.dumps({FLAG: flag})) <= room or not flag:
        return flag
    return {"more": len(flag) - ("more" in flag) + cast("int", flag.get("more", 0))}


def build_within(make: Callable[[int], dict[str, Json]], room: int) -> dict[str, Json]:
    body = make(room)
    if not may_contain_hidden(orjson.dumps(body)) or not hidden_by_field(body):
        return body
    body = make(room - _FLAG_BYTES)
    flag = _hidden_character_flag(body, _FLAG_BYTES)
    return {**body, FLAG: flag} if flag else body


def _add_flag(answer: Answer, dumped: bytes) -> Answer:
    if FLAG in answer.body or not may_contain_hidden(dumped):
        return answer
    flag = _hidden_character_flag(cast("Json", answer.body), MAX_FLAGGED_REPLY_BYTES - len(dumped))
    if not flag:
        return answer
    error = answer.body.get("error")
    if not (answer.is_error and isinstance(error, dict)):
        return Answer({**answer.body, FLAG: flag})
    flagged_error = {**error, "details": {**error["details"], FLAG: flag}}
    return Answer({**answer.body, "error": flagged_error}, is_error=True)


def within_ceiling(tool: Tool, caller: Caller, plain: Answer) -> tuple[Answer, int]:
    text = dumped(plain.body)
    is_limited = caller.channel is not Channel.CLI and not plain.is_error
    if len(text) > MAX_REPLY_BYTES and is_limited:
        size, done = len(text), " The call was carried out; do not repeat it."
        following = NextCall(_list_tool(tool), {}, "See what there is, then read it in parts.")
        if tool.reads_only:
            done = ""
            if "detail" in tool.arguments.model_fields:
                following = NextCall(tool.name, {}, f"{SAME_CALL}, without detail.")
        error = TooLarge(
            f"the reply of {tool.name} has {size:,} bytes, at most {MAX_REPLY_BYTES:,} are sent."
            f"{done}",
            next_call=following,
            limit=MAX_REPLY_BYTES,
            size=size,
        )
        plain = Answer(error.as_json(), is_error=True)
        text = dumped(plain.body)
    return _add_flag(plain, text), len(text)


def dumped(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return b""
