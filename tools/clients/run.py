"""Compatibility tests, in which each MCP client works through a plan over each transport."""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tools.clients.catalog import TRANSPORTS, Client, Transport
from tools.clients.install import ENVIRONMENTS, NODE, InstallError, install, interpreter
from tools.clients.model.script import branch_and_review
from tools.clients.model.server import ModelServer, Trial, serve_model
from tools.clients.waybook_server import WaybookServer, missing_facts, serve_waybook
from waybook.transport.mcp.prompts import instructions_for

#: Maximum seconds per test. If the machine has nothing else to do, a test takes 3 to 15 seconds.
MAX_TRIAL_SECONDS: Final = 180.0
MAX_SHOWN_LOG_LENGTH: Final = 600
LOGS: Final = ENVIRONMENTS / "logs"
#: First line of the server's instructions. A request that contains this line shows that the client
#: passes the instructions on to the model.
INSTRUCTIONS: Final = instructions_for(["get_next_step"]).splitlines()[0]
PROMPT: Final = (
    "Find out how many rivers there are. Make a plan with the waybook tools, work through it, and "
    "end when it is complete. If the plan pauses for a review: I approve."
)
#: Environment variables that keep clients offline: the proxy is port 9 on loopback, which refuses
#: connections, so a client reaches only the local servers of the test.
OFFLINE: Final = {
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"
    ),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DISABLE_TELEMETRY": "1",
    "MCP_USE_ANONYMIZED_TELEMETRY": "false",
    "OTEL_SDK_DISABLED": "true",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the test of a client over a transport."""

    client: str
    version: str
    transport: Transport
    seconds: float
    #: Reason for the failure; None if the audit of the server shows a completed plan.
    failure: str | None
    #: True if the client passed the server's instructions on to the model.
    shows_instructions: bool
    #: Number of tools that the client offered to the model, its own tools included.
    tools: int

    @property
    def trial(self) -> str:
        """Return the name of the test, which is also the name of its plan."""
        return f"{self.client}-{self.transport}"


def run_trials(clients: Sequence[Client], report: Callable[[str], None]) -> Sequence[Outcome]:
    """Test all clients, even after a failure; return the results."""
    LOGS.mkdir(parents=True, exist_ok=True)
    outcomes = []
    with serve_waybook(LOGS / "waybook-serve.log") as server, serve_model() as model:
        for client in clients:
            for transport in TRANSPORTS:
                outcomes.append(_run_trial(client, transport, server, model))
                report(f"{client.name} over {transport}: {outcomes[-1].seconds:.1f} s")
        audit = server.audit()
    return [_verify(outcome, missing_facts(audit, outcome.trial)) for outcome in outcomes]


def _verify(outcome: Outcome, missing: Sequence[str]) -> Outcome:
    """Return the result of a test, which fails if changes are missing in the audit."""
    reasons = [*missing, *filter(None, [outcome.failure])]
    return replace(outcome, failure="; ".join(reasons) or None)


def _run_trial(
    client: Client, transport: Transport, server: WaybookServer, model: ModelServer
) -> Outcome:
    name = f"{client.name}-{transport}"
    trial = Trial(name, branch_and_review(name))
    model.trials[trial.name] = trial
    try:
        folder = install(client)
        started = time.monotonic()
        failure = _drive(client, transport, folder, server, f"{model.url}/{trial.name}")
    except InstallError as error:
        started, failure = time.monotonic(), str(error)
    (LOGS / f"{trial.name}.json").write_text(json.dumps(trial.requests, indent=1))
    return Outcome(
        client=client.name,
        version=client.version,
        transport=transport,
        seconds=round(time.monotonic() - started, 1),
        failure=trial.failure or failure,
        shows_instructions=trial.has_shown(INSTRUCTIONS),
        tools=len(trial.tools),
    )


def _drive(
    client: Client, transport: Transport, folder: Path, server: WaybookServer, model_url: str
) -> str | None:
    """Run the test script of a client; return the reason for a failure, or None."""
    name = f"{client.name}-{transport}"
    with tempfile.TemporaryDirectory(prefix=f"waybook-{name}-") as workplace:
        home = Path(workplace) / "home"
        home.mkdir()
        trial = {
            "name": name,
            "transport": transport,
            "command": server.stdio_command,
            "environment": {**server.environment, "HOME": str(home), "PATH": os.environ["PATH"]},
            "url": f"{server.url}/mcp",
            "model_url": model_url,
            "prompt": PROMPT,
            "installed": str(folder),
            "workplace": workplace,
        }
        path = f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {"HOME": str(home), "LANG": "C.UTF-8", "PATH": path, **OFFLINE}
        command: list[str | Path] = [interpreter(client, folder), client.driver, json.dumps(trial)]
        return _run_bounded(command, environment, LOGS / f"{name}.log")


def _run_bounded(
    command: Sequence[str | Path], environment: dict[str, str], log: Path
) -> str | None:
    """Run a command with a time limit; return the reason for a failure, or None."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(MAX_TRIAL_SECONDS)
        except subprocess.TimeoutExpired:
            return f"the client took more than {MAX_TRIAL_SECONDS:.0f} s; see {log.name}"
        finally:
            _end_group(process)
    if code == 0:
        return None
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"the test script exited with code {code}: {(lines or [''])[-1][:MAX_SHOWN_LOG_LENGTH]}"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the processes that a client has started and that still run."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
