"""schemathesis against a server of ours, by our own description: `api.py WAYBOOK [EXAMPLES]`.

A server starts on a database of its own, and ends with it. In it is one of each thing that can be
asked for, so that not every address leads to nothing. Some of what it asked is kept in the tests.
"""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from asked import keep

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)
PATIENCE = 120  # seconds until the server must be there


def main(waybook: str, examples: str) -> int:
    """Ask for as many examples of each route; what is not as described ends in a 1."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="waybook-fuzz-", ignore_cleanup_errors=True) as place:
        Path(place).chmod(0o755)
        serve = [waybook, "serve", "--port", str(port), "--data-dir", f"{place}/data"]
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL)
        try:
            _wait_for(f"{address}/readyz")
            known = one_of_each([waybook, "call", "--json", "--data-dir", f"{place}/data"], address)
            described = Path(place) / "openapi.json"
            described.write_text(json.dumps(with_ids(_asked(f"{address}/api/openapi.json"), known)))
            tool = str(Path(sys.executable).parent / "schemathesis")
            asked = ["--checks", CHECKS, "--max-examples", examples, "--phases", "examples,fuzzing"]
            record = Path(place) / "asked.har"
            asked += ["--report", "har", "--report-har-path", str(record)]
            told = [tool, "run", str(described), "--url", address, *asked]
            done = subprocess.run(told, check=False).returncode
            keep(record, [*json.loads(described.read_text())["paths"]], known)
            return done
        finally:
            server.terminate()
            server.wait(30)
            _empty(Path(place) / "data")


def one_of_each(call: list[str], address: str) -> dict[str, str]:
    """A plan with an output and a run with a document: their ids, by what addresses call them."""

    def done(tool: str, **arguments: object) -> Any:  # noqa: ANN401 - as the tool answers
        told = subprocess.run([*call, tool, json.dumps(arguments)], check=True, capture_output=True)
        return json.loads(told.stdout)

    step = {"stepType": "search", "instructions": "Find out."}
    plan = done("create_research_plan", name="Tides", researchQuestion="Why two?", steps=[step])
    output = done(
        "store_research_output",
        planId=plan["planId"],
        title="Tides",
        content="# Two a day",
        mediaType="text/markdown",
    )
    asked = {"name": "Tides", "input": {"question": "Why two?"}, "models": ["a"]}
    run = done("start_run", dagSlug="deep-research", **asked)
    job = done("get_next_job", runId=run["runId"])
    done("submit_job_result", jobId=job["jobId"], attempt=job["attempt"], content="# Two a day")
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        stage = _asked(f"{address}/api/runs/{run['runId']}/progress")["stages"][0]
        if stage["documents"]:
            document = stage["documents"][0]["resourceId"]
            break
        time.sleep(0.2)
    else:
        raise SystemExit("the server renders nothing")
    return {
        "planId": plan["planId"],
        "outputId": output["outputId"],
        "runId": run["runId"],
        "resourceId": document,
    }


def with_ids(description: Any, known: dict[str, str]) -> Any:  # noqa: ANN401 - it is JSON
    """The description, in which an id is often one that is known."""
    operations = [one for path in description["paths"].values() for one in path.values()]
    for parameter in (one for operation in operations for one in operation.get("parameters", [])):
        if parameter["name"] in known:
            # Not so long that it could be one that is known: else it would stand for both.
            any_other = {**parameter["schema"], "maxLength": 30}
            parameter["schema"] = {"anyOf": [{"enum": [known[parameter["name"]]]}, any_other]}
    return description


def _asked(address: str) -> Any:  # noqa: ANN401 - it is JSON
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - our own server
        return json.load(answer)


def _empty(place: Path) -> None:
    """Take the database away, which ends a little after the last one who used it."""
    until = time.monotonic() + PATIENCE
    while place.exists() and time.monotonic() < until:
        shutil.rmtree(place, ignore_errors=True)
        time.sleep(0.5)


def _wait_for(address: str) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            urllib.request.urlopen(address)  # noqa: S310 - our own server
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server did not come up")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(sys.argv[2:] or ["200"])))
