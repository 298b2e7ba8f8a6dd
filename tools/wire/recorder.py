"""Recorder of requests and replies, in three sections: `wire`, `prose` and `texts`."""

import json
import re
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from typing import Any

from normalize import PROSE, Normalizer, Value, without_prose
from server import Installation, Response, Server

HEADERS = frozenset(
    {
        "allow",
        "cache-control",
        "content-disposition",
        "content-security-policy",
        "content-type",
        "cross-origin-resource-policy",
        "location",
        "referrer-policy",
        "retry-after",
        "set-cookie",
        "vary",
        "www-authenticate",
        "x-content-type-options",
        "x-frame-options",
    }
)
LEGACY = {
    "accept": "application/json, text/event-stream",
    "content_type": "application/json",
    "mcp_protocol_version": "2025-11-25",
}
MODERN_VERSION = "2026-07-28"
UNKNOWN_ID = "00000000-0000-7000-8000-000000000000"
DESCRIBED = PROSE | {"title", "description", "instructions", "text", "summary"}
LINKS = ("href", "src", "hx-get", "hx-post")
SAME = "the same JSON as structuredContent"


class ScenarioError(Exception):
    """A call succeeded although it had to be refused, or was refused although it had to succeed."""


class Recorder:
    """Recorder of replies, by name, which are normalized at the end."""

    def __init__(self) -> None:
        self.wire: dict[str, tuple[Value, frozenset[str]]] = {}
        self.texts: dict[str, str] = {}
        self.succeeded: set[str] = set()
        self.refused: set[str] = set()

    def add(self, name: str, value: Value, prose: frozenset[str] = PROSE) -> None:
        """Add an entry to the section `wire`; texts of the fields `prose` go to section `prose`."""
        self.wire[_unused_name(name, self.wire)] = (value, prose)

    def add_text(self, name: str, text: str) -> None:
        """Add a page or the output of a command to the section `texts`."""
        self.texts[_unused_name(name, self.texts)] = text

    def recording(self, literals: Mapping[str, str]) -> dict[str, Any]:
        """Return the normalized recording, with its three sections."""
        normalizer = Normalizer(literals)
        wire, prose = {}, {}
        for name, (value, keys) in self.wire.items():
            wire[normalizer.text(name)], messages = without_prose(normalizer.value(value), keys)
            if messages:
                prose[normalizer.text(name)] = messages
        text_normalizer = Normalizer(literals, earlier=normalizer)
        texts = {}
        for name, text in self.texts.items():
            normalized = text_normalizer.text(text, human_readable=True)
            texts[text_normalizer.text(name)] = remove_races(name, normalized).splitlines()
        return {"wire": wire, "prose": prose, "texts": texts}


def remove_races(name: str, text: str) -> str:
    """Return a normalized text without parts that depend on timing or the machine."""
    # The server stores a call, and the last use of a token, after the reply. It depends on timing
    # whether a page shows them, so they are removed.
    text = re.sub(r'(<details class="card" id="calls">).*?</details>', r"\1", text, flags=re.DOTALL)
    if name.endswith(("/tokens", "/tokens: add user")):
        never = r'<span class="soft">never</span>'
        text = re.sub(rf"<td>(?:{never}|<time .*?</time>)</td>", "<td><used></td>", text)
    text = re.sub(r"\d+(?:\.\d+)? GB free", "<n> GB free", text)
    text = _remove_measurements(name, text)
    return _collapse_columns(text) if name.startswith("waybook ") else text


def _remove_measurements(name: str, text: str) -> str:
    """Replace all numbers in a text that contains measurements."""
    if not re.search(r"GET /(?:calls|health)$|waybook backup", name):
        return text
    text = re.sub(r"\d+(?:[.,]\d+)*", "<n>", text)
    # This page shows the slowest tools first, so the order of its lines differs between recordings.
    return "\n".join(sorted(text.splitlines())) if name.endswith("/calls") else text


def _collapse_columns(text: str) -> str:
    """Remove the padding of columns in terminal output, which depends on times and ids."""
    text = re.sub(r"━+[ ━]*", "━ ", text)
    text = re.sub(r" {2,}", "  ", re.sub(r"(─)─+", r"\1", text))
    return re.sub(r" +(?=│?$)", "", text, flags=re.MULTILINE)


class Mcp:
    """MCP client that records every request and reply."""

    def __init__(self, recorder: Recorder, server: Server, token: str | None = None) -> None:
        self.recorder, self.server = recorder, server
        self.token = {"authorization": f"Bearer {token}"} if token else {}
        self.label = ""
        self.schemas: dict[str, dict[str, Any]] = {}
        self.probed: set[str] = set()

    def exchange(
        self, name: str, method: str, params: Mapping[str, object], prose: frozenset[str] = PROSE
    ) -> dict[str, Any]:
        """Send a request of an older MCP version; record and return the JSON-RPC reply."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        reply = self.server.request("POST", "/mcp", json.dumps(message), **LEGACY, **self.token)
        return self._record(name, message, reply, prose)

    def modern(
        self,
        name: str,
        method: str,
        params: Mapping[str, object],
        capabilities: Mapping[str, object],
        prose: frozenset[str] = PROSE,
    ) -> dict[str, Any]:
        """Send a request of the newest MCP version; record and return the JSON-RPC reply."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": method,
            "params": {"_meta": meta, **params},
        }
        headers = {**LEGACY, "mcp_protocol_version": MODERN_VERSION, "mcp_method": method}
        if "name" in params:
            headers["mcp_name"] = str(params["name"])
        reply = self.server.request("POST", "/mcp", json.dumps(message), **headers, **self.token)
        return self._record(name, message, reply, prose)

    def _record(
        self, name: str, message: Value, reply: Response, prose: frozenset[str]
    ) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(reply.body)
        entry = {
            "request": {"method": message["method"], "params": message["params"]},
            **http_entry(reply),
        }
        self.recorder.add(f"{self.label}{name}", entry, prose)
        return body

    # Functions that call tools

    def attempt(self, name: str, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Call a tool, which may succeed or be refused; return its result."""
        body = self.exchange(name, "tools/call", {"name": tool, "arguments": arguments})
        result: dict[str, Any] = body.get("result") or {"isError": True, "structuredContent": {}}
        outcome = self.recorder.refused if result["isError"] else self.recorder.succeeded
        outcome.add(tool)
        return result

    def call(self, tool: str, case: str = "", /, **arguments: object) -> dict[str, Any]:
        """Call a tool, which must succeed; the first time, also send it malformed arguments."""
        result = self.attempt(f"tool {tool}: {case or 'ok'}", tool, arguments)
        if result["isError"]:
            raise ScenarioError(f"{tool} ({case}) was refused: {result}")
        # The tool of the map app is not listed for a client that shows no apps, so its schema is
        # unknown here.
        if tool in self.schemas and tool not in self.probed:
            self.probed.add(tool)
            self._probe(tool, arguments)
        content: dict[str, Any] = result["structuredContent"]
        return content

    def refuse(self, tool: str, case: str, /, **arguments: object) -> None:
        """Call a tool with arguments that most versions refuse; record the reply in any case."""
        self.attempt(f"tool {tool}: {case}", tool, arguments)

    def _probe(self, tool: str, arguments: Mapping[str, object]) -> None:
        """Call a tool with unknown, missing and malformed arguments, and with unknown ids."""
        schema = self.schemas[tool]
        # Send no idempotency key, because using the same key with other arguments is an error too.
        arguments = {k: v for k, v in arguments.items() if k != "idempotencyKey"}
        self.refuse(tool, "unknown argument", **{**arguments, "nonsense": 1})
        for name in schema.get("required", []):
            rest = {k: v for k, v in arguments.items() if k != name}
            self.attempt(f"tool {tool}: without {name}", tool, rest)
        for name, property_ in schema["properties"].items():
            if property_.get("type") in {"string", "integer", "number", "boolean", "array"}:
                wrong = {**arguments, name: {"wrong": "type"}}
                self.attempt(f"tool {tool}: {name} of the wrong type", tool, wrong)
        for name in arguments:
            if name.endswith("Id") and name not in {"sessionId", "modelId"}:
                for case, value in (("unknown", UNKNOWN_ID), ("malformed", "no such id")):
                    self.attempt(f"tool {tool}: {case} {name}", tool, {**arguments, name: value})


def http_entry(reply: Response) -> dict[str, Any]:
    """Return the status, headers and body of a response.

    JSON is parsed, and other text is split into lines.
    """
    headers = {name: _header(name, reply.headers[name]) for name in sorted(reply.headers)}
    recorded = {name: value for name, value in headers.items() if name in HEADERS}
    return {"status": reply.status, "headers": recorded, **_body(reply.body)}


def _header(name: str, value: str) -> str:
    # Nonces and the values of cookies are random, so they are replaced.
    value = re.sub(r"'nonce-[^']+'", "'nonce-<nonce>'", value)
    return re.sub(r"^([^=]+)=[^;]*", r"\1=<cookie>", value) if name == "set-cookie" else value


def _body(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {"text": text.splitlines()}
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False) == text.rstrip("\n")
    return {"form": "compact JSON" if compact else "JSON", "body": parse_embedded_json(value)}


def parse_embedded_json(value: Value) -> Value:
    """Return the reply with parsed JSON in place of texts that contain JSON."""
    match value:
        case {"result": {"content": [{"text": str(text)}, *_] as content} as result}:
            inner = _parse_json(text)
            if inner is not None:
                same = inner == result.get("structuredContent")
                content[0]["text"] = SAME if same else inner
        case {"result": {"contents": [{"text": str(text)}, *_] as contents}}:
            inner = _parse_json(text)
            contents[0]["text"] = text.splitlines() if inner is None else inner
    return value


def _parse_json(text: str) -> Value:
    try:
        return json.loads(text)
    except ValueError:
        return None


class _InterfaceParser(HTMLParser):
    """Parser that collects the links, forms and fields on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: dict[str, None] = {}
        self.forms: list[dict[str, Any]] = []
        self.loose: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.links |= dict.fromkeys(attributes[name] for name in LINKS if name in attributes)
        if tag == "form":
            method, action = attributes.get("method", "get"), attributes.get("action", "")
            self.forms.append({"method": method, "action": action, "fields": []})
        elif tag in {"input", "button", "select", "textarea"} and "name" in attributes:
            shown = f"{tag} {attributes['name']}"
            is_fixed = attributes.get("type") == "hidden" and attributes["name"] != "key"
            if is_fixed or tag == "button":
                shown += f"={attributes.get('value', '')}"
            (self.forms[-1]["fields"] if self.forms else self.loose).append(shown)


def page_interface(page: str) -> dict[str, Any]:
    """Return the links, forms and fields on a page, without its texts and markup."""
    parser = _InterfaceParser()
    parser.feed(page)
    return {"links": [*parser.links], "forms": parser.forms, "fields": parser.loose}


def record_page(
    recorder: Recorder, name: str, reply: Response, request: Iterable[str] = ()
) -> None:
    """Record the links, forms and fields on a page in `wire`, and its HTML in `texts`."""
    entry = http_entry(Response(reply.status, reply.headers, "{}"))
    del entry["body"], entry["form"]
    if reply.headers.get("content-type", "").startswith("text/html"):
        entry |= page_interface(reply.body)
        recorder.add_text(name, reply.body)
    else:
        entry |= _body(reply.body)
    recorder.add(name, {**({"request": [*request]} if request else {}), **entry})


def record_command(
    recorder: Recorder, installation: Installation, *arguments: str, stdin: str = ""
) -> Value:
    """Run a command; record JSON output in `wire`, and other output in `texts`."""
    done = installation.run(*arguments, stdin=stdin)
    name = f"waybook {' '.join(arguments)}"
    lines = [_parse_json(line) for line in done.stdout.splitlines()]
    value = _parse_json(done.stdout)
    if value is None and lines and None not in lines:
        value = lines
    if value is None:
        recorder.add(name, {"exit": done.returncode})
        recorder.add_text(f"{name} (stdout)", done.stdout)
    else:
        recorder.add(name, {"exit": done.returncode, "stdout": value})
    if done.stderr:
        recorder.add_text(f"{name} (stderr)", done.stderr)
    return value


def _unused_name(name: str, taken: Mapping[str, object]) -> str:
    numbered, n = name, 1
    while numbered in taken:
        n += 1
        numbered = f"{name} ({n})"
    return numbered
