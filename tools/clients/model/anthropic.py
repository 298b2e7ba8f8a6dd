"""Translation between the scripted model and Anthropic's messages API."""

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

USAGE = {"input_tokens": 100, "output_tokens": 10}


def read(body: Json) -> Conversation:
    """Return the conversation in a request to the API."""
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    names = {block["id"]: block["name"] for block in blocks if block.get("type") == "tool_use"}
    results = [
        ToolResult(names[block["tool_use_id"]], plain_text(block.get("content")))
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    tools = [
        OfferedTool(each["name"], each.get("description", ""), each.get("input_schema", {}))
        for each in body.get("tools") or ()
    ]
    return Conversation(tools, results)


def write(reply: Reply, body: Json, call_id: str) -> Json:
    """Return the reply of the scripted model as a complete response of the API."""
    if isinstance(reply, FinalText):
        block: Json = {"type": "text", "text": reply.text}
    else:
        arguments = dict(reply.arguments)
        block = {"type": "tool_use", "id": call_id, "name": reply.tool.name, "input": arguments}
    return {
        "id": f"msg_{call_id}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": [block],
        "stop_reason": "end_turn" if isinstance(reply, FinalText) else "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
    }


def stream(reply: Reply, body: Json, call_id: str) -> Iterator[tuple[str | None, Json]]:
    """Yield the reply of the scripted model as server-sent events, as pairs of name and data."""
    answer = write(reply, body, call_id)
    (block,) = answer["content"]
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        text = json.dumps(block["input"])
        empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}
    ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    started = {**answer, "content": [], "stop_reason": None}
    events: tuple[tuple[str, Json], ...] = (
        ("message_start", {"message": started}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": ended, "usage": {"output_tokens": 10}}),
        ("message_stop", {}),
    )
    for name, data in events:
        yield name, {"type": name, **data}
