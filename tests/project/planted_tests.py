"""Runs of pytest on planted test files, with the configuration of this repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from layers import TESTS
from project.repository import ROOT
from run_place import PLACE


def run_planted(folder: Path, *options: str, **files: str) -> "subprocess.CompletedProcess[str]":
    """Write each of the files into a test folder of the same name, and run pytest on them."""
    for name, text in files.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / f"test_{name}.py").write_text(text, "utf-8")
    for name in ("conftest.py", "layers.py"):
        shutil.copy(TESTS / name, folder)
    settings = ["-c", f"{ROOT}/pyproject.toml", f"--rootdir={folder}", "-p", "no:cacheprovider"]
    paths = ["-o", f"pythonpath={folder} {ROOT / 'harness'} {TESTS} {TESTS / 'support'}"]
    # The planted run creates and removes a directory of its own.
    variables = {name: value for name, value in os.environ.items() if name != PLACE}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *settings, *paths, *options, *files],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
