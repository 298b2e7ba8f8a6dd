"""Local server with Google's Gemini API, which answers from a scripted model."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from plugin_clients.anthropic_server import serve
from plugin_clients.scripted_agent import Call, decide


@dataclass
class GeminiModel:
    """Scripted model for Gemini CLI that records its tool calls, and the texts of requests."""

    before_answer: Callable[[list[str], Call | str], None] = lambda _texts, _answer: None
    calls: list[Call] = field(default_factory=list)
    contexts: list[list[str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, as a content part."""
        texts = [text for content in body["contents"] for text in texts_of(content)]
        declared = [
            function["name"]
            for tool in body.get("tools", [])
            for function in tool.get("functionDeclarations", [])
        ]
        offered = {name: full for full in declared for name in SHORT if full.endswith(name)}
        if len(offered) < len(SHORT):
            return {"text": "{}"}
        with self.lock:
            self.contexts.append(texts)
            decision = decide(texts)
            self.before_answer(texts, decision)
            if isinstance(decision, str):
                return {"text": decision}
            self.calls.append(decision)
            return {"functionCall": {"name": offered[decision.tool], "args": decision.arguments}}


SHORT = ("get_next_step", "submit_step_result")
#: Texts that Gemini CLI puts before and after each tool result.
OPENED, CLOSED = "<untrusted_context>\n", "\n</untrusted_context>"


def texts_of(content: dict[str, Any]) -> Iterator[str]:
    """Yield the texts in a content object of a request, tool results included."""
    for part in content.get("parts", []):
        if "text" in part:
            yield part["text"]
        elif "functionResponse" in part:
            for text in strings_in(part["functionResponse"].get("response")):
                yield text.removeprefix(OPENED).removesuffix(CLOSED)


def strings_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for inner in value.values() for text in strings_in(inner))
    elif isinstance(value, list):
        yield from (text for inner in value for text in strings_in(inner))


@contextmanager
def serve_gemini(model: GeminiModel) -> Iterator[str]:
    """Serve the scripted model on loopback; yield the URL."""

    def reply(path: str, body: dict[str, Any]) -> tuple[bytes, str]:
        if "countTokens" in path:
            return b'{"totalTokens": 10}', "application/json"
        content = {"role": "model", "parts": [model.answer(body)]}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        text = json.dumps({"candidates": [candidate], "usageMetadata": usage})
        if "streamGenerateContent" in path:
            return f"data: {text}\r\n\r\n".encode(), "text/event-stream"
        return text.encode(), "application/json"

    with serve(reply) as url:
        yield url
