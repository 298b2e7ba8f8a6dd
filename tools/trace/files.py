"""Count the Waybook source files whose code runs during one call.

    files.py [--python PATH/.venv/bin/python] [--list]

A profile function in the server records every executed file. Each kind of call is made several
times as a warm-up, and then measured several times. A file counts if every measured call executed a
function in it, so that background work does not count. For pages, files of the transport count; for
tools, they do not. Files that run during the whole life of the process never count: the command,
the files that build the application, and the background loops.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "wire"))

from server import Server, installation, wait_until  # noqa: E402 - the path is set above

WARM_UP = 5
MEASURED = 6
#: Files that run all the time. Their former names are included, so that older versions can be
#: measured too.
RUNTIME = ("cli/", "wiring.py", "bootstrap.py", "application.py", "background.py", "loops.py")
HEADERS = {
    "accept": "application/json, text/event-stream",
    "content_type": "application/json",
    "mcp_protocol_version": "2025-11-25",
}

Body = dict[str, Any]


class Trace:
    """Client of a server that records which files it executes."""

    def __init__(self, server: Server, out: Path) -> None:
        self.server, self.out = server, out

    def call(self, tool: str, **arguments: object) -> Body:
        """Call a tool; return its reply, and fail if it is an error."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        reply = self.server.request("POST", "/mcp", json.dumps(message), **HEADERS)
        result: Body = json.loads(reply.body)["result"]
        assert not result["isError"], result
        body: Body = result["structuredContent"]
        return body

    def page(self, path: str) -> None:
        """Request a page; fail if its status is not 200."""
        reply = self.server.request("GET", path, accept="text/html")
        assert reply.status == 200, reply

    def files(self, action: Callable[[], object]) -> set[str]:
        """Perform an action; return the package's files that the server executed for it."""
        os.kill(self.server.process.pid, signal.SIGUSR1)
        action()
        return self._read_trace()

    def _read_trace(self) -> set[str]:
        self.out.unlink(missing_ok=True)
        os.kill(self.server.process.pid, signal.SIGUSR2)
        wait_until(self.out.exists, "the trace is written")
        return set(json.loads(self.out.read_text()))


def trace_calls(trace: Trace) -> dict[str, list[str]]:
    """Make all calls; return, for each kind, the files that every measured call executed."""
    steps = [{"stepType": "search", "instructions": f"Look up {n}."} for n in range(40)]
    plan = {"name": "Traced", "researchQuestion": "Which files?", "steps": steps}
    plan_id = trace.call("create_research_plan", **plan)["planId"]
    run = {"dagSlug": "deep-research", "name": "Traced", "input": "?", "models": ["a", "b"]}
    run_id = trace.call("start_run", **run)["runId"]
    claimed: list[Body] = []

    def claim_step() -> None:
        claimed.append(trace.call("get_next_step", planId=plan_id))

    def submit() -> None:
        claim = {name: claimed[-1][name] for name in ("stepId", "attempt")}
        trace.call("submit_step_result", **claim, resultSummary={"river": "Nile"}, confidence=0.9)

    actions: dict[str, Callable[[], object]] = {
        "get_next_step": claim_step,
        "submit_step_result": submit,
        "get_run_progress": lambda: trace.call("get_run_progress", runId=run_id),
        "plan page": lambda: trace.page(f"/plans/{plan_id}"),
        "run page": lambda: trace.page(f"/runs/{run_id}"),
        "ping": lambda: trace.call("ping"),
    }
    cycles = [
        {name: trace.files(action) for name, action in actions.items()}
        for _ in range(WARM_UP + MEASURED)
    ]
    return {name: sorted(_common(cycle[name] for cycle in cycles[WARM_UP:])) for name in actions}


def _common(sets: Iterable[set[str]]) -> set[str]:
    return set.intersection(*sets)


def print_table(calls: dict[str, list[str]], *, names: bool) -> None:
    """Print the number of files for each call; for tools, leave out the transport."""
    sys.stdout.write(f"{'call':20} {'counted':>7} {'templates':>9} {'transport':>9} {'all':>5}\n")
    for name, files in calls.items():
        work = [file for file in files if not file.startswith(RUNTIME)]
        transport = [file for file in work if file.startswith("transport/")]
        templates = sum(not file.endswith(".py") for file in files)
        counted = len(work) if name.endswith("page") else len(work) - len(transport)
        columns = f"{counted:7} {templates:9} {len(transport):9} {len(files):5}"
        sys.stdout.write(f"{name:20} {columns}\n")
        if names:
            sys.stdout.writelines(f"    {file}\n" for file in files)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv/bin/python")
    parser.add_argument("--list", action="store_true", help="print the names of the files")
    options = parser.parse_args(arguments)
    with installation(options.python) as installed:
        program, out = installed.home / "waybook-traced", installed.home / "trace.json"
        command = f'exec "{options.python.absolute()}" "{HERE / "traced.py"}" "$@"'
        program.write_text(f"#!/bin/sh\n{command}\n")
        program.chmod(0o755)
        installed.waybook = program
        installed.settings = {"WAYBOOK_TRACE_OUT": str(out)}
        with installed.serving("--tools", "all") as server:
            calls = trace_calls(Trace(server, out))
    print_table(calls, names=options.list)


if __name__ == "__main__":
    main(sys.argv[1:])
