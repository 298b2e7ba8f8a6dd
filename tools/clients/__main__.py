"""Test MCP clients against Waybook, and print a table of results: `make harness NAME=clients`.

Each client works through a plan on a real server, with a scripted model.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tools.clients.catalog import CI, CLIENTS, select
from tools.clients.install import ENVIRONMENTS
from tools.clients.matrix import format_table, group, unexpected, update_page
from tools.clients.run import run_trials


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make harness NAME=clients", description=__doc__)
    parser.add_argument("names", nargs="*", help="clients to test (default: all)")
    parser.add_argument("--ci", action="store_true", help="test only the clients that CI tests")
    parser.add_argument("--write", action="store_true", help="update docs/clients.md")
    options = parser.parse_args(arguments)
    try:
        clients = select(CI if options.ci else options.names)
    except LookupError as error:
        parser.error(str(error))
    # Let SIGTERM have the effect of Ctrl-C, so that the servers are stopped before this process
    # ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes = run_trials(clients, _print)
    results = ENVIRONMENTS / "results.json"
    results.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    rows = group(outcomes)
    _print(format_table(rows))
    if options.write:
        update_page(rows)
    reasons = [
        reason
        for client in CLIENTS
        if client.name in rows
        for reason in unexpected(client, rows[client.name])
    ]
    for reason in reasons:
        _print(f"UNEXPECTED {reason}")
    return 1 if reasons else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
