"""Translation between the scripted model and OpenAI's chat completions API."""

import json
import re
from collections.abc import Iterator

from tools.clients.model.script import (
    CALL_BY_NAME,
    Conversation,
    FinalText,
    Json,
    OfferedTool,
    Reply,
    ToolResult,
)
from tools.clients.model.text import plain_text

CALL_IN_TEXT = re.compile(r"Calling tools:.*?'name': '(\w+)'", re.DOTALL)
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def read(body: Json) -> Conversation:
    """Return the conversation in a request to the API."""
    functions = [tool["function"] for tool in body.get("tools") or ()]
    tools = [
        OfferedTool(each["name"], each.get("description", ""), each.get("parameters", {}))
        for each in functions
    ]
    return Conversation(tools, list(_results(body["messages"])))


def _results(messages: Json) -> Iterator[ToolResult]:
    """Yield the tool results in the messages.

    smolagents sends tool calls and results as plain text.
    """
    names: dict[str, str] = {}
    last = ""
    for message in messages:
        names |= {call["id"]: _name(call["function"]) for call in message.get("tool_calls") or ()}
        text = plain_text(message.get("content"))
        if message["role"] == "tool":
            yield ToolResult(names[message["tool_call_id"]], text)
        elif (calls := re.findall(CALL_IN_TEXT, text)) and message["role"] == "assistant":
            last = calls[-1]
        elif "Observation:" in text and last:
            yield ToolResult(last, text.split("Observation:")[-1])


def _name(function: Json) -> str:
    name: str = function["name"]
    return json.loads(function["arguments"])["name"] if name == CALL_BY_NAME else name


def write(reply: Reply, body: Json, call_id: str) -> Json:
    """Return the reply of the scripted model as a complete response of the API."""
    if isinstance(reply, FinalText):
        message: Json = {"role": "assistant", "content": reply.text}
        reason = "stop"
    else:
        function = {"name": reply.tool.name, "arguments": json.dumps(reply.arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {**_head(body, call_id, "chat.completion"), "choices": [choice], "usage": USAGE}


def stream(reply: Reply, body: Json, call_id: str) -> Iterator[tuple[str | None, Json]]:
    """Yield the reply of the scripted model as server-sent events, as pairs of name and data."""
    answer = write(reply, body, call_id)
    delta = answer["choices"][0]["message"]
    for index, call in enumerate(delta.get("tool_calls", ())):
        call["index"] = index
    head = _head(body, call_id, "chat.completion.chunk")
    reason = answer["choices"][0]["finish_reason"]
    yield None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield None, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    yield None, {**head, "choices": [], "usage": USAGE}
    yield None, "[DONE]"


def _head(body: Json, call_id: str, kind: str) -> Json:
    return {"id": f"chat-{call_id}", "object": kind, "created": 0, "model": body.get("model", "")}
