"""Clients of `waybook mcp` and `waybook serve` processes, for tests of the URLs in replies."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from embedded_postgres.processes import eventually
from patience import PATIENCE_SECONDS
from preloaded_process import PreloadedProcess, open_preloaded


@dataclass
class StdioClient:
    """MCP client over stdin and stdout; every line of stdout must be a protocol message."""

    process: PreloadedProcess
    log: Path

    def ask(self, method: str, **params: object) -> Any:  # noqa: ANN401 - JSON
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        return json.loads(line)["result"]

    def call(self, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        body = json.loads(answer["content"][0]["text"])
        assert not answer["isError"], body
        return body

    def review(self, name: str) -> str:
        """Create a plan with a step in review; return the URL of the review."""
        steps = [{"stepType": "custom", "instructions": "Do it."}]
        plan = self.call("create_research_plan", name=name, researchQuestion="?", steps=steps)
        step = self.call("get_next_step", planId=plan["planId"])
        requested = self.call("request_user_review", stepId=step["stepId"], summary="Enough?")
        return str(requested["reviewUrl"])

    def base_url(self) -> str:
        """Return the start of the first review URL in the list of plans."""
        plans = self.call("list_active_plans")["plans"]
        url = next(plan["reviewUrl"] for plan in plans if "reviewUrl" in plan)
        return str(url).partition("/plans/")[0]

    def end(self) -> None:
        """Close stdin, and wait until the process has ended."""
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE_SECONDS) == 0, self.log.read_text()
        assert "Traceback" not in self.log.read_text()


@contextmanager
def open_stdio(data_dir: Path, port: int, *words: str, **variables: str) -> Iterator[StdioClient]:
    """Start `waybook mcp` with this port for the dashboard, and initialize an MCP session."""
    with _open_process(data_dir, "mcp", *words, WAYBOOK_PORT=str(port), **variables) as client:
        client.ask(
            "initialize",
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "test", "version": "1"},
        )
        yield client


@contextmanager
def open_serve(data_dir: Path, port: int) -> Iterator[str]:
    """Start `waybook serve`, yield its URL, and stop it with SIGTERM at the end."""
    with _open_process(data_dir, "serve", "--port", str(port)) as client:
        line = client.process.stdout.readline()
        assert line.startswith("Waybook is serving"), client.log.read_text()
        yield line.split()[-1]
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(timeout=PATIENCE_SECONDS) == 0, client.log.read_text()


@contextmanager
def _open_process(data_dir: Path, *words: str, **variables: str) -> Iterator[StdioClient]:
    where = {"WAYBOOK_DATA_DIR": str(data_dir), "WAYBOOK_CONFIG": str(data_dir / "no.toml")}
    log = data_dir.parent / f"{words[0]}-{os.urandom(4).hex()}.log"
    environment = {**os.environ, "NO_COLOR": "1", **where, **variables}
    with open_preloaded(words, environment, log) as process:
        yield StdioClient(process, log)


def find_free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as probe:
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def get_page(url: str, **headers: str) -> httpx2.Response:
    with httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as browser:
        return browser.get(url, headers={"accept": "text/html", **headers})


def opens(url: str) -> bool:
    """Return whether a server answers with the page at this URL."""
    try:
        return get_page(url).status_code == 200
    except httpx2.TransportError:
        return False


def wait_until_it_opens(url: str) -> None:
    eventually(lambda: opens(url), f"{url} opens")
