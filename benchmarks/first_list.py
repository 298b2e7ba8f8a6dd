"""Time from process start to the first `tools/list` of `waybook mcp`, compared with a bare server.

Both servers are started like an MCP client starts them and called over stdio. The database server
is already running, as in a second conversation. The bare server is built with the MCP SDK; it has
one tool and no database.

    python benchmarks/first_list.py [--rounds 9]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from waybook.cli.demo.environment import temporary_database

#: Maximum time of Waybook, as a multiple of the bare server's time.
LIMIT = 1.5

BARE = """
import anyio, mcp_types as wire
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(context, params):
    schema = {"type": "object", "properties": {}}
    return wire.ListToolsResult(tools=[wire.Tool(name="ping", input_schema=schema)])

async def main():
    server = Server("bare", on_list_tools=list_tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


def first_list(command: list[str], environment: dict[str, str]) -> float:
    """Return the seconds from the start of a process to its answer to the first `tools/list`."""
    started = time.perf_counter()
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert server.stdin
    assert server.stdout
    for message in (HELLO, READY, LIST):
        server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()
    while True:
        answer = json.loads(server.stdout.readline())
        if answer.get("id") == LIST["id"]:
            break
    took = time.perf_counter() - started
    assert answer["result"]["tools"]
    server.stdin.close()
    server.wait(30)
    server.stdout.close()
    return took


def main(rounds: int) -> None:
    """Measure Waybook and the bare server in turn, and compare their times."""
    with temporary_database() as folder:
        environment = {**os.environ, "WAYBOOK_DATA_DIR": str(folder)}
        waybook, bare = (
            [str(Path(sys.executable).parent / "waybook"), "mcp"],
            [sys.executable, "-c", BARE],
        )
        pairs = [
            (first_list(waybook, environment), first_list(bare, environment))
            for _ in range(rounds + 1)
        ][1:]
    own = statistics.median(pair[0] for pair in pairs)
    peer = statistics.median(pair[1] for pair in pairs)
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"{'first tools/list over stdio':34}{'seconds':>10}")
    print(f"{'bare server of the SDK':34}{peer:10.2f}")
    print(f"{'waybook mcp, database warm':34}{own:10.2f}")
    print(f"{'ratio':34}{ratio:10.2f}   limit {LIMIT}")
    assert ratio <= LIMIT, f"{ratio:.2f} times the bare server; the limit is {LIMIT}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    main(parser.parse_args().rounds)
