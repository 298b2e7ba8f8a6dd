"""Hard limit on the size of every reply: the last resort behind the use cases.

Use cases cut what they return and name the call for the rest. Anything they did not foresee becomes
an error here that names a narrower call. The command line is exempt: it runs in a process of its
own, so no other caller waits for it.
"""

import orjson

from waybook.app.request.answers import add_flag
from waybook.app.request.caller import MAX_REPLY_BYTES, Answer, Caller
from waybook.app.request.tool import RUNS, Tool
from waybook.core.decision_context import Channel
from waybook.errors import SAME_CALL, NextCall, TooLarge


def within_ceiling(tool: Tool, caller: Caller, plain: Answer) -> tuple[Answer, int]:
    """Return the answer with its flag, and its size in bytes; an error if it is too large."""
    text = dumped(plain.body)
    is_limited = caller.channel is not Channel.CLI and not plain.is_error
    if len(text) > MAX_REPLY_BYTES and is_limited:
        plain = Answer(reply_too_large(tool, len(text)).as_json(), is_error=True)
        text = dumped(plain.body)
    return add_flag(plain, text), len(text)


def reply_too_large(tool: Tool, size: int) -> TooLarge:
    """Return the error for a reply above the limit, with a call that returns less."""
    done = "" if tool.reads_only else " The call was carried out; do not repeat it."
    look = "list_dags" if tool.profiles == RUNS else "get_research_context"
    brief = tool.reads_only and "detail" in tool.arguments.model_fields
    following = (
        NextCall(tool.name, {}, f"{SAME_CALL}, without detail")
        if brief
        else NextCall(look, {}, "read it by parts, within a budget")
    )
    return TooLarge(
        f"the reply of {tool.name} has {size:,} bytes, at most {MAX_REPLY_BYTES:,} are sent.{done}",
        next_call=following,
        limit=MAX_REPLY_BYTES,
        size=size,
    )


def dumped(value: object) -> bytes:
    """Return a body as JSON; empty if it cannot be serialized."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return b""
