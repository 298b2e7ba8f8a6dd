"""Requests for `workers.py` that servers answer mostly on their own, with little SQL.

The callers send prepared requests over many connections and read no more than the length of the
responses, so that the servers use nearly all of the CPU time. The connections share one count of
the requests to send, so that a worker with fewer connections is not idle before the end.
"""

import json
import re
import selectors
import socket
from collections.abc import Mapping
from typing import Final

from flood import Caller, call
from mcp_http import INSTRUCTIONS, RESULT
from report import make_snapshot
from worker_usage import Measured, Target, read_usage, usage_per_cycle

#: Number of connections. The kernel distributes them at random over two workers: of 16 connections,
#: the busier worker gets 60 % on average; of 64 connections, 55 %.
CONNECTIONS: Final = 64
#: Number of steps of the plan whose progress is read (the maximum for a plan), and how many of them
#: are completed.
PLAN_STEPS: Final = 200
COMPLETED_STEPS: Final = 20
#: Number of steps in the snapshot, which has ten times as many jobs.
SNAPSHOT_STEPS: Final = 200
PROGRESS, REPORT = "progress of a plan", "report of a snapshot"

_HEAD: Final = re.compile(rb"HTTP/1\.1 200 .*?\r\ncontent-length: (\d+)\r\n.*?\r\n\r\n", re.DOTALL)
_BUFFER_BYTES: Final = 1 << 20


async def prepare_requests(address: str, token: str) -> Mapping[str, bytes]:
    """Create a plan; return a request for its progress, and one for a report on a snapshot."""
    async with Caller(address, token) as caller:
        steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * PLAN_STEPS
        arguments = {"name": "b", "researchQuestion": "How fast?", "steps": steps}
        plan_id = (await call(caller, "create_research_plan", **arguments))["planId"]
        for _ in range(COMPLETED_STEPS):
            step = await call(caller, "get_next_step", planId=plan_id)
            held = {"stepId": step["stepId"], "attempt": step["attempt"]}
            await call(caller, "submit_step_result", **held, resultSummary=RESULT)
        # Check that the tool succeeds, because tool errors have the HTTP status 200 too.
        await call(caller, "get_run_progress", planId=plan_id)
    params = {"name": "get_run_progress", "arguments": {"planId": plan_id}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    bodies = {PROGRESS: json.dumps(message), REPORT: make_snapshot(SNAPSHOT_STEPS)}
    heads = {PROGRESS: caller.head, REPORT: caller.head.replace("/mcp", "/api/report", 1)}
    return {
        name: f"{heads[name]}{len(body)}\r\n\r\n{body}".encode() for name, body in bodies.items()
    }


def measure_reads(target: Target, postmaster: int, request: bytes, count: int) -> Measured:
    """Send a request `count` times over all connections, and measure the processes."""
    host, _, port = target.addresses[0].removeprefix("http://").partition(":")
    selector = selectors.DefaultSelector()
    try:
        for _ in range(CONNECTIONS):
            connection = socket.create_connection((host, int(port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, [0])
        before = read_usage(target.processes, postmaster)
        send_requests(selector, request, count)
        return usage_per_cycle(before, read_usage(target.processes, postmaster), count)
    finally:
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]  # a socket
        selector.close()


def send_requests(selector: selectors.BaseSelector, request: bytes, count: int) -> None:
    """Send a request `count` times; a connection sends the next one after a complete response.

    The data of a connection in the selector is a list with one number: the bytes of the response
    that are still missing.
    """
    buffer, waiting, unsent = bytearray(_BUFFER_BYTES), 0, count
    for key in list(selector.get_map().values())[:count]:
        key.fileobj.sendall(request)  # type: ignore[union-attr]  # a socket
        waiting, unsent = waiting + 1, unsent - 1
    while waiting:
        for key, _ in selector.select():
            connection, missing = key.fileobj, key.data
            assert isinstance(connection, socket.socket)
            size = connection.recv_into(buffer)
            if not missing[0]:
                head = _HEAD.match(buffer, 0, size)
                assert head, bytes(buffer[:size])
                missing[0] = head.end() + int(head[1])
            missing[0] -= size
            if missing[0]:
                continue
            if unsent:
                connection.sendall(request)
                unsent -= 1
            else:
                waiting -= 1
