"""Launcher for clients that are command-line programs of Node.js packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from trial import Trial


def run_program(trial: Trial, program: str, *arguments: str, **environment: str) -> None:
    """Run a program from the client's Node.js packages, and exit with its exit code."""
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
    """Run a script of this folder with the trial as its argument, and exit with its exit code.

    Node.js looks for packages next to a script, so the script is copied to them.
    """
    shutil.copy(Path(__file__).with_name(name), trial.installed)
    run_program(trial, f"../{name}", sys.argv[1])
