"""Write the lock files of the MCP clients: `make harness NAME=lock-clients`."""

import subprocess
import sys
from pathlib import Path

from tools.clients.catalog import CLIENTS, Client
from tools.clients.install import NODE, NPM

UV = Path(sys.executable).parent / "uv"


def main() -> int:
    """Write the lock files of the clients named on the command line, by default of all."""
    for client in CLIENTS:
        if client.name in (sys.argv[1:] or [client.name]):
            subprocess.run(_command(client), cwd=client.lock.parent, check=True)
    return 0


def _command(client: Client) -> list[str | Path]:
    if client.ecosystem == "npm":
        # Leave out the download URLs, so that every machine can use its own package registry.
        options = ["--ignore-scripts", "--no-audit", "--omit-lockfile-registry-resolved"]
        return [NODE / "bin/node", NPM, "install", "--package-lock-only", *options]
    options = [
        "--quiet",
        "--upgrade",
        "--universal",
        "--python-version",
        "3.11",
        "--no-header",
        "--system-certs",
    ]
    files = [f"{client.name}.in", "-o", client.lock.name]
    return [UV, "pip", "compile", *options, "--generate-hashes", *files]


if __name__ == "__main__":
    sys.exit(main())
