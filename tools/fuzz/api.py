"""Fuzz the HTTP API with schemathesis, based on its OpenAPI description: `make harness NAME=fuzz`.

`api.py WAYBOOK [EXAMPLES]` starts a server on a temporary database, with a plan, an output, a run
and a document, so that some generated requests address existing objects. A limited number of the
requests is saved in the test corpus.
"""

import itertools
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

from har_corpus import add_to_corpus

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)
#: Maximum seconds to wait for the start or end of the server, or for a rendered document.
MAX_WAIT_SECONDS = 120


def main(waybook: str, examples: str) -> int:
    """Send this many requests to each route; return the exit code of schemathesis."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="waybook-fuzz-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        serve = [waybook, "serve", "--port", str(port), "--data-dir", f"{folder}/data"]
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL)
        try:
            _wait_for(f"{address}/readyz")
            call = [waybook, "call", "--json", "--data-dir", f"{folder}/data"]
            ids = create_resources(call, address)
            description = add_known_ids(_get_json(f"{address}/api/openapi.json"), ids)
            described = Path(folder) / "openapi.json"
            described.write_text(json.dumps(description))
            tool = str(Path(sys.executable).parent / "schemathesis")
            options = ["--checks", CHECKS, "--max-examples", examples]
            options += ["--phases", "examples,fuzzing"]
            har = Path(folder) / "requests.har"
            options += ["--report", "har", "--report-har-path", str(har)]
            command = [tool, "run", str(described), "--url", address, *options]
            exit_code = subprocess.run(command, check=False).returncode
            add_to_corpus(har, [*description["paths"]], ids)
            return exit_code
        finally:
            server.terminate()
            server.wait(30)
            _remove(Path(folder) / "data")


def create_resources(call: list[str], address: str) -> dict[str, str]:
    """Create a plan with an output, and a run with a document; return their ids.

    The keys are the names of parameters in paths.
    """

    def call_tool(tool: str, **arguments: object) -> Any:  # noqa: ANN401 - as the tool answers
        command = [*call, tool, json.dumps(arguments)]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    step = {"stepType": "search", "instructions": "Find out."}
    plan = call_tool(
        "create_research_plan", name="Tides", researchQuestion="Why two?", steps=[step]
    )
    output = call_tool(
        "store_research_output",
        planId=plan["planId"],
        title="Tides",
        content="# Two a day",
        mediaType="text/markdown",
    )
    arguments = {"name": "Tides", "input": {"question": "Why two?"}, "models": ["a"]}
    run = call_tool("start_run", dagSlug="deep-research", **arguments)
    job = call_tool("get_next_job", runId=run["runId"])
    documents = [{"content": "# Two a day"}]
    call_tool("submit_job_result", jobId=job["jobId"], attempt=job["attempt"], documents=documents)
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < deadline:
        stage = _get_json(f"{address}/api/runs/{run['runId']}/progress")["stages"][0]
        if stage["documents"]:
            document = stage["documents"][0]["resourceId"]
            break
        time.sleep(0.2)
    else:
        raise SystemExit("the server did not render the document")
    return {
        "planId": plan["planId"],
        "outputId": output["outputId"],
        "runId": run["runId"],
        "resourceId": document,
    }


def add_known_ids(description: Any, ids: dict[str, str]) -> Any:  # noqa: ANN401 - it is JSON
    """Return the OpenAPI description with these ids as possible values of parameters in paths."""
    operations = [
        operation for path in description["paths"].values() for operation in path.values()
    ]
    for parameter in itertools.chain.from_iterable(o.get("parameters", []) for o in operations):
        if parameter["name"] in ids:
            # Other values are shorter than an id, because a value must not match both schemas.
            any_other = {**parameter["schema"], "maxLength": 30}
            parameter["schema"] = {"anyOf": [{"enum": [ids[parameter["name"]]]}, any_other]}
    return description


def _get_json(address: str) -> Any:  # noqa: ANN401 - it is JSON
    with urllib.request.urlopen(address) as answer:  # noqa: S310 - our own server
        return json.load(answer)


def _remove(folder: Path) -> None:
    """Remove the data directory; try again while PostgreSQL still writes files."""
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.5)


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(address)  # noqa: S310 - our own server
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(sys.argv[2:] or ["200"])))
