"""Translation between the scripted model and OpenAI's responses API."""

import json
from collections.abc import Iterator

from tools.clients.model.script import (
    Conversation,
    FinalText,
    Json,
    OfferedTool,
    Reply,
    ToolResult,
)
from tools.clients.model.text import plain_text

USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 110,
}


def read(body: Json) -> Conversation:
    """Return the conversation in a request to the API."""
    sent = body["input"]
    items = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
    names = {each["call_id"]: each["name"] for each in items if each.get("type") == "function_call"}
    results = [
        ToolResult(names[each["call_id"]], plain_text(each["output"]))
        for each in items
        if each.get("type") == "function_call_output"
    ]
    return Conversation(list(_tools(body.get("tools") or (), None)), results)


def _tools(tools: Json, namespace: str | None) -> Iterator[OfferedTool]:
    """Yield the functions that the client offers to the model, even those inside a namespace."""
    for tool in tools:
        if tool["type"] == "namespace":
            yield from _tools(tool["tools"], tool["name"])
        elif tool["type"] == "function":
            description = tool.get("description") or ""
            yield OfferedTool(tool["name"], description, tool.get("parameters") or {}, namespace)


def write(reply: Reply, body: Json, call_id: str) -> Json:
    """Return the reply of the scripted model as a complete response of the API."""
    return {
        "id": f"resp_{call_id}",
        "object": "response",
        "created_at": 0,
        "model": body.get("model", ""),
        "status": "completed",
        "output": [_item(reply, call_id)],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
    }


def stream(reply: Reply, body: Json, call_id: str) -> Iterator[tuple[str | None, Json]]:
    """Yield the reply of the scripted model as server-sent events, as pairs of name and data."""
    answer = write(reply, body, call_id)
    (item,) = answer["output"]
    started = {**answer, "status": "in_progress", "output": [], "usage": None}
    events = (
        ("response.created", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": answer}),
    )
    for number, (name, data) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **data}


def _item(reply: Reply, call_id: str) -> Json:
    if isinstance(reply, FinalText):
        text = {"type": "output_text", "text": reply.text, "annotations": []}
        kind = {"type": "message", "role": "assistant", "content": [text]}
        return {"id": f"msg_{call_id}", "status": "completed", **kind}
    namespace = {"namespace": reply.tool.namespace} if reply.tool.namespace else {}
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": reply.tool.name,
        **namespace,
        "arguments": json.dumps(reply.arguments),
        "status": "completed",
    }
