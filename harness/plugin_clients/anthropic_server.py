"""Local server with Anthropic's messages API, which answers from a scripted model."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from plugin_clients.scripted_agent import SUMMARY, Call, decide, parse_reply

COMPACTION: Final = "create a detailed summary of"


@dataclass
class ScriptedModel:
    """Scripted model that records its tool calls and the requests of the client.

    Before each answer is sent, `before_answer` gets it, and may kill the client.
    """

    before_answer: Callable[[list[str], Call | str], None] = lambda _texts, _answer: None
    calls: list[Call] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    contexts: list[list[str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request, as a content block."""
        texts = [text for message in body["messages"] for text in texts_of(message["content"])]
        if any(COMPACTION in text for text in texts[-3:]):
            self.summaries.append("\n".join(texts))
            return {"type": "text", "text": SUMMARY}
        names = [tool["name"] for tool in body.get("tools", [])]
        if not names:
            return {"type": "text", "text": "A title"}
        with self.lock:
            self.contexts.append(texts)
            return self.act(texts, names)

    def act(self, texts: list[str], names: list[str]) -> dict[str, Any]:
        """Return the next tool call of the model or its final text, as a content block."""
        decision = decide(texts)
        self.before_answer(texts, decision)
        if isinstance(decision, str):
            return {"type": "text", "text": decision}
        offered = [name for name in names if name.endswith(f"__{decision.tool}")]
        if not offered:
            return tool_use("WaitForMcpServers", {}, len(self.contexts))
        self.calls.append(decision)
        return tool_use(offered[0], decision.arguments, len(self.contexts))


def texts_of(content: object) -> Iterator[str]:
    """Yield the texts in the content of a message."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            yield from texts_of(block.get("text") or block.get("content"))


def last_reply(texts: list[str]) -> dict[str, Any] | None:
    """Return the last reply of a Waybook tool in a request."""
    replies = [reply for text in texts if (reply := parse_reply(text)) is not None]
    return replies[-1] if replies else None


def tool_use(name: str, arguments: dict[str, Any], number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number:024d}", "name": name, "input": arguments}


def stream(model: str, block: dict[str, Any]) -> bytes:
    """Return a message with this content block, as server-sent events."""
    is_text = block["type"] == "text"
    begun = {**block, "text": ""} if is_text else {**block, "input": {}}
    delta = (
        {"type": "text_delta", "text": block["text"]}
        if is_text
        else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    )
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    reason = {"stop_reason": "end_turn" if is_text else "tool_use", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


@contextmanager
def serve_model(model: ScriptedModel) -> Iterator[str]:
    """Serve the scripted model on loopback; yield the URL."""

    def reply(path: str, body: dict[str, Any]) -> tuple[bytes, str]:
        if "count_tokens" in path:
            return b'{"input_tokens": 100}', "application/json"
        return stream(body["model"], model.answer(body)), "text/event-stream"

    with serve(reply) as url:
        yield url


@contextmanager
def serve(reply: Callable[[str, dict[str, Any]], tuple[bytes, str]]) -> Iterator[str]:
    """Serve replies, computed from the path and body of each POST request; yield the URL.

    A reply is a pair of content and media type.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.send(b"", "application/json")

        def do_GET(self) -> None:
            self.send(b"{}", "application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send(*reply(self.path, body))

        def send(self, body: bytes, media_type: str) -> None:
            self.send_response(200)
            self.send_header("content-type", media_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Ignore the error after a client was killed while it waited for an answer."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
