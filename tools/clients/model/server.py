"""Local HTTP server of the scripted model, in the formats of four model APIs.

One server answers all clients: the path of a request begins with the name of the test, for example
`/codex-stdio/v1/responses`.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Final
from urllib.parse import urlsplit

from tools.clients.model import anthropic, gemini, openai_chat, openai_responses
from tools.clients.model.script import Conversation, FinalText, Json, Scenario, ToolCall, decide

#: Maximum number of requests in a test, which needs nine. A client that sends so many is in an
#: endless loop.
MAX_REQUESTS: Final = 60
FORMATS: Final[Mapping[str, ModuleType]] = {
    "/chat/completions": openai_chat,
    "/responses": openai_responses,
    "/messages": anthropic,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}


@dataclass
class Trial:
    """Test of a client over one transport, with the requests that the model got from the client."""

    name: str
    scenario: Scenario
    requests: list[Json] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    failure: str | None = None

    def has_shown(self, text: str) -> bool:
        """Return whether a request contained this text."""
        return text in json.dumps(self.requests, ensure_ascii=False)

    def answer(self, conversation: Conversation) -> FinalText | ToolCall:
        """Record a request; return the reply of the model."""
        self.tools.update(tool.name for tool in conversation.tools)
        if len(self.requests) > MAX_REQUESTS:
            self.failure = f"more than {MAX_REQUESTS} requests to the model"
            return FinalText(self.failure)
        reply = decide(conversation, self.scenario)
        if isinstance(reply, FinalText) and conversation.tools and not reply.is_complete:
            self.failure = reply.text
        return reply


class ModelServer(ThreadingHTTPServer):
    """HTTP server that records the requests of all clients under test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.trials: dict[str, Trial] = {}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Return the base URL of the server, to which the name of a test is appended."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *_: object) -> None:
        """Log nothing, because requests are recorded for each test."""

    def do_GET(self) -> None:
        """Answer a request for the list of models."""
        model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "waybook"}
        self._send(200, {"object": "list", "data": [model], "models": []})

    def do_HEAD(self) -> None:
        """Answer a request that checks whether the server is reachable."""
        self._send(200, {})

    def do_POST(self) -> None:
        """Answer a request to the model, in the format of the API in the path."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
        path = urlsplit(self.path).path
        if path.endswith(("/count_tokens", ":countTokens")):
            return self._send(200, {"input_tokens": 100, "totalTokens": 100})
        suffix = next((each for each in FORMATS if path.endswith(each)), None)
        trial = self.server.trials.get(path.split("/")[1])
        if suffix is None or trial is None:
            return self._send(404, {"error": {"message": f"The scripted model has no {path}."}})
        with self.server.lock:
            trial.requests.append({"path": path, "body": body})
            reply = trial.answer(FORMATS[suffix].read(body))
            call_id = f"call_{len(trial.requests)}"
        if body.get("stream") or suffix == ":streamGenerateContent":
            return self._stream(FORMATS[suffix].stream(reply, body, call_id))
        return self._send(200, FORMATS[suffix].write(reply, body, call_id))

    def _stream(self, events: Iterator[tuple[str | None, Json]]) -> None:
        lines = []
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            lines.append(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n")
        self._send_bytes(200, "text/event-stream", "".join(lines).encode())

    def _send(self, status: int, body: Json) -> None:
        self._send_bytes(status, "application/json", json.dumps(body).encode())

    def _send_bytes(self, status: int, media_type: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def serve_model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
