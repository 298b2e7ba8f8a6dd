"""Functions that start MCP clients that are Node.js programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from trial import Trial


def run_program(trial: Trial, program: str, *arguments: str, **environment: str) -> None:
    """Run a program of the client's Node.js packages; exit with its exit code."""
    path = Path(trial.installed) / "node_modules" / program
    done = subprocess.run(
        ["node", path, *arguments],
        cwd=trial.workplace,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    sys.exit(done.returncode)


def run_script(trial: Trial, name: str) -> None:
    """Run a Node.js script of this folder; exit with its exit code.

    Node.js searches for packages beside the script, so the script is copied to the client's
    packages first.
    """
    shutil.copy(Path(__file__).with_name(name), trial.installed)
    run_program(trial, f"../{name}", sys.argv[1])
