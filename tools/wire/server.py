"""Waybook server with an empty data directory, and an HTTP client for this server."""

import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

START_SECONDS = 180
#: CSRF token for forms. The server accepts any text of this length that is in both cookie and form.
FORM_TOKEN = "t" * 43
FORM = {
    "cookie": f"waybook_form={FORM_TOKEN}",
    "content-type": "application/x-www-form-urlencoded",
}


@dataclass(frozen=True, slots=True)
class Response:
    """HTTP response with its complete body."""

    status: int
    headers: Mapping[str, str]
    body: str


@dataclass
class Server:
    """Running process of `waybook serve`."""

    port: int
    process: "subprocess.Popen[bytes]"

    def request(self, method: str, path: str, body: str | None = None, **headers: str) -> Response:
        """Send a request; return its response. In names of headers, underscores become hyphens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body.encode() if body is not None else None, sent)
            reply = connection.getresponse()
            received = {name.lower(): value for name, value in reply.getheaders()}
            return Response(reply.status, received, reply.read().decode())
        finally:
            connection.close()

    def form(self, path: str, fields: Mapping[str, str], **headers: str) -> Response:
        """Submit a form with a CSRF token, as dashboard pages do."""
        usual = {name.replace("-", "_"): value for name, value in FORM.items()}
        body = urlencode({"token": FORM_TOKEN, **fields})
        return self.request("POST", path, body, **{**usual, **headers})


@dataclass
class Installation:
    """Command `waybook` with a home directory, data directory and settings of its own."""

    waybook: Path
    home: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def environment(self) -> dict[str, str]:
        """Return environment variables for all processes; few of them come from this process."""
        inherited = {
            k: v for k, v in os.environ.items() if k in {"PATH", "TMPDIR", "USER", "LOGNAME"}
        }
        fixed = {"HOME": str(self.home), "TZ": "UTC", "LANG": "C.UTF-8", "COLUMNS": "100"}
        return {**inherited, **fixed, "NO_COLOR": "1", **self.settings}

    def run(self, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command; return its output and exit code."""
        return subprocess.run(
            [str(self.waybook), *arguments],
            env=self.environment,
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @contextmanager
    def serving(self, *options: str) -> Iterator[Server]:
        """Run a server on a free port during the block."""
        port = free_port()
        command = [str(self.waybook), "serve", "--tools", "all"]
        command += ["--port", str(port), "--data-dir", str(self.data)]
        with (self.home / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *options], env=self.environment, cwd=self.home, stdout=log, stderr=log
            )
        server = Server(port, process)
        try:
            wait_until(lambda: _is_ready(server), "the server is ready")
            yield server
        finally:
            process.terminate()
            process.wait(60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"timed out waiting until {what}")
        time.sleep(0.1)


@contextmanager
def installation(waybook: Path) -> Iterator[Installation]:
    """Yield an installation in a temporary directory; remove it at the end."""
    home = Path(tempfile.mkdtemp(prefix="waybook-wire-"))
    home.chmod(0o755)
    try:
        yield Installation(waybook, home)
    finally:
        # The embedded PostgreSQL may still write files, so try again.
        deadline = time.monotonic() + START_SECONDS
        while home.exists() and time.monotonic() < deadline:
            shutil.rmtree(home, ignore_errors=True)
            time.sleep(0.2)


def _is_ready(server: Server) -> bool:
    if server.process.poll() is not None:
        sys.exit(f"the server ended with exit code {server.process.returncode}")
    try:
        return server.request("GET", "/readyz").status == http.client.OK
    except OSError:
        return False
