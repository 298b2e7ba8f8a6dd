"""Translation between the scripted model and Google's Gemini API."""

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

USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}


def read(body: Json) -> Conversation:
    """Return the conversation in a request to the API."""
    parts = [part for content in body["contents"] for part in content.get("parts") or ()]
    responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
    results = [ToolResult(each["name"], plain_text(each["response"])) for each in responses]
    declared = [
        each for tool in body.get("tools") or () for each in tool.get("functionDeclarations") or ()
    ]
    tools = [
        OfferedTool(
            each["name"],
            each.get("description", ""),
            each.get("parametersJsonSchema") or each.get("parameters") or {},
        )
        for each in declared
    ]
    return Conversation(tools, results)


def write(reply: Reply, body: Json, call_id: str) -> Json:
    """Return the reply of the scripted model as a complete response of the API."""
    del body
    if isinstance(reply, FinalText):
        part: Json = {"text": reply.text}
    else:
        part = {"functionCall": {"name": reply.tool.name, "args": dict(reply.arguments)}}
    content = {"role": "model", "parts": [part]}
    candidate = {"index": 0, "content": content, "finishReason": "STOP"}
    return {"responseId": call_id, "candidates": [candidate], "usageMetadata": USAGE}


def stream(reply: Reply, body: Json, call_id: str) -> Iterator[tuple[str | None, Json]]:
    """Yield the reply of the scripted model as server-sent events, as pairs of name and data."""
    yield None, write(reply, body, call_id)
