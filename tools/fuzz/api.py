"""schemathesis against a server of ours, by our own description: `api.py WAYBOOK [EXAMPLES]`.

A server starts on an empty database of its own, and ends with it.
"""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

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
            tool = str(Path(sys.executable).parent / "schemathesis")
            asked = ["--checks", CHECKS, "--max-examples", examples, "--phases", "examples,fuzzing"]
            told = [tool, "run", f"{address}/api/openapi.json", "--url", address, *asked]
            return subprocess.run(told, check=False).returncode
        finally:
            server.terminate()
            server.wait(30)
            _empty(Path(place) / "data")


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
