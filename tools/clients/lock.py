"""Write the lock files of the clients from their requirements: `make harness NAME=lock-clients`."""

import subprocess
import sys
from pathlib import Path

from tools.clients.catalog import CLIENTS, Client
from tools.clients.install import NODE, NPM

UV = Path(sys.executable).parent / "uv"


def main() -> int:
    """Write the lock file of each client, or of the clients named on the command line."""
    for client in CLIENTS:
        if client.name in (sys.argv[1:] or [client.name]):
            subprocess.run(_command(client), cwd=client.lock.parent, check=True)
    return 0


def _command(client: Client) -> list[str | Path]:
    if client.ecosystem == "npm":
        # Omit the `resolved` URLs, so that the installer chooses the registry.
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
