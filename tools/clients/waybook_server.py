"""Waybook server for compatibility tests, with a temporary database.

The audit of the server shows whether a client has completed its plan.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

WAYBOOK: Final = str(Path(sys.executable).parent / "waybook")
MAX_START_SECONDS: Final = 120
MAX_COMMAND_SECONDS: Final = 120
#: Changes that the audit of a completed plan must contain, as kind of row, field and new value. The
#: keys are the messages to print if these changes are missing.
FACTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "no condition fired": ("condition", "outcome", "fired"),
    "no step was skipped": ("step", "status", "skipped"),
    "no decision was recorded": ("review", "decision", "approve"),
    "the plan was not completed": ("plan", "status", "completed"),
}

Audit = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class WaybookServer:
    """Process of `waybook serve`, whose database all `waybook mcp` processes of the tests use."""

    url: str
    data_dir: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return environment variables which keep Waybook from reading the user's configuration."""
        return {"WAYBOOK_CONFIG": str(self.data_dir.parent / "none.toml")}

    @property
    def stdio_command(self) -> list[str]:
        """Return the command by which a client starts Waybook over stdio."""
        return [WAYBOOK, "mcp", "--data-dir", str(self.data_dir)]

    def audit(self) -> Audit:
        """Return the audited changes of all plans, by name of the plan."""
        command = [WAYBOOK, "audit", "list", "--json", "--limit", "1000"]
        done = subprocess.run(
            [*command, "--data-dir", self.data_dir],
            env={**os.environ, **self.environment},
            capture_output=True,
            check=True,
            timeout=MAX_COMMAND_SECONDS,
        )
        names: dict[str, str] = {}
        changes = defaultdict(list)
        for entry in json.loads(done.stdout):
            changes[entry["subjectId"]].extend(entry["changes"])
            for change in entry["changes"]:
                if change["entity"] == "plan" and change["field"] == "*":
                    names[change["id"]] = change["to"]["name"]
        return {name: changes[plan_id] for plan_id, name in names.items()}


def missing_facts(audit: Audit, plan_name: str) -> list[str]:
    """Return a message for each of the `FACTS` that the audit of a plan lacks.

    For a plan that was completed, the list is empty.
    """
    if plan_name not in audit:
        return ["no plan was created"]
    facts = {(each["entity"], each["field"], str(each["to"])) for each in audit[plan_name]}
    return [name for name, fact in FACTS.items() if fact not in facts]


@contextmanager
def serve_waybook(log: Path) -> Iterator[WaybookServer]:
    """Serve Waybook on a temporary database during the block.

    Raises:
        TimeoutError: the server was not ready in time.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="waybook-clients-"))
    # If this process runs as root, the embedded PostgreSQL runs under another system account, which
    # must have access to this folder.
    folder.chmod(0o755)
    server = WaybookServer(f"http://127.0.0.1:{port}", folder / "data")
    command = [WAYBOOK, "serve", "--port", str(port), "--data-dir", str(server.data_dir)]
    with log.open("wb") as output:
        environment = {**os.environ, **server.environment}
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _wait_until_ready(f"{server.url}/readyz", process)
            yield server
        finally:
            process.terminate()
            process.wait(MAX_COMMAND_SECONDS)
            _remove(folder)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + MAX_START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - the server just started
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError(f"{url} did not become ready; the log of waybook serve has the reason")


def _remove(folder: Path) -> None:
    """Remove the data directory; try again while PostgreSQL still writes files."""
    deadline = time.monotonic() + MAX_START_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.2)
