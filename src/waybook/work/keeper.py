"""Parent process of one agent: owns all its processes, and ends them with the agent or the worker.

It is run as a file by a plain interpreter, so it imports only the standard library. Its socket is
connected to the worker; when the worker closes it or dies, the keeper ends the agent.
"""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

#: Environment variable by which the processes of an agent are found, even without their keeper.
MARK = "WAYBOOK_AGENT"
_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
_MEMORY_SECONDS = 1.0
_POLL_SECONDS = 0.01
#: Processes that the agent left running get this long after SIGTERM.
_LEFT_SECONDS = 1.0
_MAX_KILL_SECONDS = 5.0


def main(mark: str, descriptor: str, grace: str, max_memory: str, *command: str) -> None:
    channel = socket.socket(fileno=int(descriptor))
    wake, waking = socket.socketpair()
    waking.settimeout(0)
    signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
    # An ignored signal would stay ignored in the agent; a handled one does not.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        environment = {**os.environ, MARK: mark}
        agent = subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603
    except OSError as error:
        channel.sendall(json.dumps({"error": f"{command[0]}: {error.strerror}"}).encode())
        return
    _close_output()
    is_over_memory = _watch(agent, channel, wake, int(max_memory))
    is_done = agent.returncode is not None
    left = len(_tree(agent.pid))
    _end(agent, _LEFT_SECONDS if is_done else float(grace))
    report = {
        "code": agent.returncode,
        "left": left if is_done else 0,
        "overMemory": is_over_memory,
    }
    with suppress(OSError):
        channel.sendall(json.dumps(report).encode())


def _close_output() -> None:
    """Leave the output to the agent, so that the worker sees its end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)


def _watch(
    agent: "subprocess.Popen[bytes]", channel: socket.socket, wake: socket.socket, max_memory: int
) -> bool:
    """Wait until the agent ends, or must be ended; return whether it used too much memory."""
    while True:
        seconds = _MEMORY_SECONDS if max_memory else None
        readable, _, _ = select.select([channel, wake], [], [], seconds)
        if wake in readable:
            wake.recv(4096)
        _reap(agent)
        if agent.returncode is not None or channel in readable:
            return False
        if max_memory and _memory(_tree(agent.pid)) > max_memory:
            return True


def _reap(agent: "subprocess.Popen[bytes]") -> None:
    """Collect the exit codes of the agent and of all processes that it left to the keeper."""
    with suppress(ChildProcessError):
        while True:
            # A subreaper must collect any child; Popen would collect only its own.
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid == agent.pid:
                agent.returncode = os.waitstatus_to_exitcode(status)


def _end(agent: "subprocess.Popen[bytes]", grace: float) -> None:
    """Send SIGTERM to all processes, and SIGKILL to those that have not ended after the grace."""
    _signal(_tree(agent.pid), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (tree := _tree(agent.pid)) and time.monotonic() < deadline + _MAX_KILL_SECONDS:
        if time.monotonic() >= deadline:
            # Processes that were started meanwhile are found the next time.
            _signal(tree, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
        _reap(agent)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _tree(agent: int) -> list[int]:
    """Return the living processes below the keeper; elsewhere than on Linux, the agent's group."""
    if not _PROC.joinpath("self", "stat").exists():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(agent, 0)
            return [-agent]
        return []
    children: dict[int, list[int]] = {}
    for pid in processes():
        state, parent, _ = read_stat(pid)
        if state not in ("Z", "X", ""):
            children.setdefault(parent, []).append(pid)
    tree, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        tree += below
        waiting += below
    return tree


def _memory(pids: list[int]) -> int:
    """Return the bytes that these processes use, with shared pages divided among their users."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            text = _PROC.joinpath(str(pid), "smaps_rollup").read_text()
            total += int(text.split("\nPss:", 1)[1].split()[0]) * 1024
    return total


def processes() -> Iterator[int]:
    with suppress(OSError):
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def read_stat(pid: int) -> tuple[str, int, str]:
    """Return the state, parent and start time of a process; an empty state if it has ended."""
    try:
        # The name of the program may contain spaces and parentheses.
        fields = _PROC.joinpath(str(pid), "stat").read_text(errors="replace").rpartition(")")[2]
        state, parent, *rest = fields.split()
        return state, int(parent), rest[17]
    except (OSError, ValueError, IndexError):
        return "", 0, ""


def kill_marked(is_ours: Callable[[str], bool]) -> int:
    """Kill the processes whose mark satisfies a condition; return how many there were."""
    killed: set[int] = set()
    deadline = time.monotonic() + _MAX_KILL_SECONDS
    while time.monotonic() < deadline:
        marked = {pid for pid in processes() if (mark := _mark(pid)) and is_ours(mark)}
        if not marked:
            break
        _signal(marked, signal.SIGKILL)
        killed |= marked
    return len(killed)


def _mark(pid: int) -> str:
    prefix = f"{MARK}=".encode()
    with suppress(OSError):
        for entry in _PROC.joinpath(str(pid), "environ").read_bytes().split(b"\0"):
            if entry.startswith(prefix) and read_stat(pid)[0] not in ("Z", "X", ""):
                return entry.removeprefix(prefix).decode(errors="replace")
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
