"""HTTP client for commands, and the stored login.

It imports few modules, because commands must start fast.
"""

import http.client
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from waybook.cli.terminal.errors import HintedError, ToolError, UnreachableError

Body = dict[str, Any]

_TIMEOUT_SECONDS: Final = 30
_HEADERS: Final = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2025-11-25",
    "user-agent": "waybook-terminal",
}
#: Part of the message with which a server answers requests for a path that it does not know.
_UNKNOWN_ADDRESS: Final = "nothing at this address"
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")


class Remote:
    """A server that answers over HTTP."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url, self.token = url, token
        self._connection: http.client.HTTPConnection | None = None

    #: How to start serving the pages; a server over HTTP already serves them.
    hint: str | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def read(self, view: str, **parameters: str | int | None) -> Body:
        named = {name: value for name, value in parameters.items() if value is not None}
        return self._ask("GET", f"/api/views/{view}?{urlencode(named)}")

    def call(self, tool: str, arguments: Mapping[str, object]) -> Body:
        params = {"name": tool, "arguments": {**arguments}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = self._ask("POST", "/mcp", message)
        if "error" in answer:
            raise HintedError(str(answer["error"].get("message")), "waybook call --help")
        result = answer["result"]
        if result.get("isError"):
            with suppress(ValueError, KeyError, IndexError, TypeError):
                raise ToolError(json.loads(result["content"][0]["text"])["error"])
            raise self._not_ours(HTTPStatus.OK)
        body: Body = result["structuredContent"]
        return body

    def share(self, plan_id: str, days: int) -> str:
        path = f"/api/plans/{quote(plan_id, safe='')}/links"
        return str(self._ask("POST", path, {"days": days})["url"])

    def drawing(self, noun: str, _: str | None) -> object:
        message = "maps are written beside the database; over HTTP, look at the page"
        raise HintedError(message, f"waybook {noun} view --web")

    def _ask(self, method: str, path: str, body: object = None) -> Body:
        status, text = self._exchange(method, path, body)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        error = answer.get("error") if isinstance(answer, dict) else None
        if status == HTTPStatus.UNAUTHORIZED:
            what = "does not accept your token" if self.token else "requires a token"
            raise HintedError(f"{self.url} {what}", f"waybook login {self.url}")
        if isinstance(error, dict) and _UNKNOWN_ADDRESS in str(error.get("message")):
            message = f"{self.url} is an older version, without {path.partition('?')[0]}"
            raise HintedError(message, "upgrade the server, or use the waybook of its version")
        if isinstance(error, dict) and isinstance(error.get("code"), str):
            raise ToolError(error)
        if not isinstance(answer, dict) or status not in {HTTPStatus.OK, HTTPStatus.BAD_REQUEST}:
            raise self._not_ours(status)
        return answer

    def _exchange(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        """Send a request on the open connection, which the server may have closed meanwhile."""
        parts = urlsplit(self.url)
        headers = {**_HEADERS, **({"authorization": f"Bearer {self.token}"} if self.token else {})}
        sent = None if body is None else json.dumps(body)
        is_reused = self._connection is not None
        try:
            if self._connection is None:
                secure = parts.scheme == "https"
                kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
                self._connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS)
            self._connection.request(method, parts.path + path, sent, headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self._connection = None
            if is_reused and method == "GET":
                return self._exchange(method, path, body)
            raise self._unreachable(error) from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            self._connection = None
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> HintedError:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        hint = "check that the server runs, or choose another: waybook login URL"
        return UnreachableError(f"cannot reach {self.url}: {reason}", hint)

    def _not_ours(self, status: int) -> HintedError:
        message = f"{self.url} answered with status {status}, but not as a Waybook server"
        return HintedError(message, "check the address: waybook login URL")


def normalize_url(text: str) -> str:
    """Return the URL of a server, with https unless it is on this machine.

    >>> normalize_url("plans.example.org/"), normalize_url("localhost:8750")
    ('https://plans.example.org', 'http://localhost:8750')
    """
    scheme = "http" if urlsplit(f"//{text}").hostname in _LOCAL else "https"
    url = (text if "://" in text else f"{scheme}://{text}").rstrip("/").removesuffix("/mcp")
    parts = urlsplit(url)
    with suppress(ValueError):
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0:
            return url
    raise HintedError(f"{text} is not the address of a server", "waybook login https://HOST")


def is_exposed(url: str) -> bool:
    """Return whether a token would be sent to another machine without encryption."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOCAL


def login_file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME", "/")) / ".config"
    named = os.environ.get("WAYBOOK_CONFIG") or Path(home) / "waybook" / "config.toml"
    return Path(named).with_name("login.json")


def write_login(remote: Remote) -> None:
    """Store the login in a file that only its owner can read."""
    path = login_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"url": remote.url, "token": remote.token}, file)
    draft.replace(path)


def find_remote(token: object = None) -> Remote | None:
    """Return the server of the environment or of the stored login, or None if there is neither."""
    known = str(token) if token else os.environ.get("WAYBOOK_TOKEN")
    if url := os.environ.get("WAYBOOK_SERVER"):
        return Remote(normalize_url(url), known)
    if os.environ.get("WAYBOOK_DATA_DIR") or os.environ.get("WAYBOOK_DATABASE_URL"):
        return None
    path = login_file()
    try:
        stored = json.loads(path.read_text("utf-8"))
        return Remote(str(stored["url"]), known or stored["token"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HintedError(f"cannot read {path}: {error}", "waybook login URL") from None
