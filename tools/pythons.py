"""Run `make test` on every supported Python of this machine: `make harness NAME=test-pythons`.

The supported versions are those named in pyproject.toml. If several releases of a version are
installed, the oldest one is used, because it has the fewest features. Each Python has its own
environment, such as `.venv-3.12`. The report lists versions that were not found.
"""

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
ASK = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
Version = tuple[int, ...]


def supported() -> list[str]:
    """Return the Python versions in pyproject.toml that the package supports, oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    matches = map(CLASSIFIER.fullmatch, project["classifiers"])
    return [match[1] for match in matches if match]


def candidates(version: str) -> Iterator[Path]:
    """Return paths at which this version of Python may be: on the PATH, or installed by pyenv."""
    for folder in [*os.environ.get("PATH", os.defpath).split(os.pathsep), "/usr/bin"]:
        yield Path(folder) / f"python{version}"
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from home.glob(f"versions/{version}.*/bin/python")


def exact_version(python: Path) -> Version | None:
    """Return the full version of a Python program; None if it does not run."""
    try:
        answer = subprocess.run(
            [python, "-I", "-c", ASK], check=False, capture_output=True, text=True, cwd=ROOT
        )
    except OSError:
        return None
    return tuple(map(int, answer.stdout.split("."))) if answer.returncode == 0 else None


def oldest(pythons: Iterable[Path], version: str) -> tuple[Version, Path] | None:
    """Return the oldest release of this Python version, and its program.

    If no program has this version, return None.
    """
    known = [(exact, python) for python in pythons if (exact := exact_version(python))]
    wanted = tuple(map(int, version.split(".")))
    return min((pair for pair in known if pair[0][:2] == wanted), default=None)


def main() -> int:
    table, has_failed = [], False
    for version in supported():
        python = oldest(candidates(version), version)
        if python is None:
            table.append(f"{version:8} not found")
            continue
        exact = ".".join(map(str, python[0]))
        sys.stdout.write(f"Python {exact}: {python[1]}\n")
        sys.stdout.flush()
        start = time.monotonic()
        make = ["make", "--silent", "test", f"PYTHON={python[1]}", f"VENV=.venv-{version}"]
        code = subprocess.run(make, cwd=ROOT, check=False).returncode
        has_failed = has_failed or code != 0
        minutes = (time.monotonic() - start) / 60
        table.append(
            f"{exact:8} {'failed' if code else 'passed'} in {minutes:.1f} min, {python[1]}"
        )
    sys.stdout.write("\n".join(["", *table, ""]))
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
