"""One process of an agent with all processes it starts, within limits."""

import asyncio
import json
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from waybook.work import keeper
from waybook.work.adapters import Adapter
from waybook.work.mcp_config import configure
from waybook.work.output import OutputReader
from waybook.work.results import parse_json
from waybook.work.tasks import MICROS_PER_DOLLAR, Limits, Outcome, OutcomeKind, Task, Usage
from waybook.work.transcript import MAX_SHOWN_LENGTH, Transcript, variables_of

_PLACEHOLDER = re.compile(r"\{\w+\}")
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
#: Lines of each piece of output that people see.
MAX_LINES: Final = 20
MAX_RESULT_BYTES: Final = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
#: Seconds between two checks of the limits.
_CHECK_SECONDS = 0.25
#: The keeper gets this long, beyond the grace of the agent, before it is killed too.
_KEEPER_SECONDS = 10.0


#: How an agent ended, and why.
_Ending: TypeAlias = tuple[OutcomeKind, str]


class AgentRun:
    """One process of an agent, from its start to the end of all its processes."""

    def __init__(
        self, adapter: Adapter, task: Task, limits: Limits, transcript: Transcript, before: Usage
    ) -> None:
        """Prepare a run. `before` is the usage of earlier runs of the same conversation."""
        self._adapter, self._task, self._limits = adapter, task, limits
        self._transcript = transcript
        self._reader = OutputReader(adapter, before)
        #: Why the agent has to end before it is done.
        self._end: _Ending | None = None
        self._size = 0
        #: When the agent began to repeat a failing request.
        self._stuck_since: float | None = None
        self._mark = f"{os.getpid()}.{keeper.read_stat(os.getpid())[2]}.{secrets.token_hex(8)}"

    async def run(self) -> Outcome:
        """Run the agent to its end. If this task is canceled, the agent is ended first."""
        place = private_folders()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f"{self._mark}.", dir=place, ignore_cleanup_errors=True
        ) as private:
            running = asyncio.ensure_future(self._run(Path(private)))
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                self._end = OutcomeKind.FAILED, "the agent was canceled"
                await asyncio.wait([running])
                raise

    async def _run(self, private: Path) -> Outcome:
        ours, far_end = socket.socketpair()
        with ours:
            try:
                with far_end:
                    process = await self._start(private, far_end.fileno())
            except OSError as error:
                return Outcome(OutcomeKind.FAILED, f"the agent cannot be started: {error}")
            ours.setblocking(False)  # noqa: FBT003 - the only form
            reading = [
                asyncio.ensure_future(self._read(process.stdout, self._reader.read)),
                asyncio.ensure_future(self._read(process.stderr, self._reader.read_error)),
            ]
            report = asyncio.ensure_future(_report(ours))
            deadline = asyncio.get_running_loop().time() + self._limits.seconds
            while not (report.done() or self._end):
                await asyncio.wait([report], timeout=_CHECK_SECONDS)
                over = None if report.done() else self._unread(reading) or self._exceeded(deadline)
                if over is not None and not self._end:
                    self._end = over[0], f"{over[1]}; it was ended"
            if not report.done():
                # The keeper ends the agent then.
                ours.shutdown(socket.SHUT_WR)
                await asyncio.wait([report], timeout=self._limits.grace_seconds + _KEEPER_SECONDS)
                with suppress(ProcessLookupError):
                    process.kill()
            known = await report
        # The agent may have killed the keeper, so look for processes without an owner.
        escaped = await asyncio.to_thread(keeper.kill_marked, self._mark.__eq__)
        # A process that could not be killed may keep the output open.
        await asyncio.wait(reading, timeout=_KEEPER_SECONDS)
        self._end = self._end or self._unread(reading)
        for task in reading:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_KEEPER_SECONDS):
                await process.wait()
        if left := known.get("left", 0) + escaped:
            self._transcript.note(f"{left} processes that the agent had left running were ended")
        return self._outcome(known, _result_text(private / "result"))

    async def _start(self, private: Path, channel: int) -> Process:
        command, environment = prepare(self._adapter, self._task, private)
        words = (str(self._limits.grace_seconds), str(self._limits.memory_bytes or 0), *command)
        with (private / "prompt.md").open("rb") as prompt:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", keeper.__file__, self._mark, str(channel), *words),
                cwd=self._task.folder,
                env=environment,
                stdin=prompt,
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=[channel],
                start_new_session=True,
            )

    async def _read(
        self, stream: asyncio.StreamReader | None, read_line: Callable[[str], list[str]]
    ) -> None:
        """Read the output to its end. What exceeds the limit is dropped."""
        rest, chunk = b"", b"-"
        while stream is not None and chunk:
            chunk = await stream.read(_CHUNK_BYTES)
            self._size += len(chunk)
            if self._size > self._limits.output_bytes:
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            if rest and (len(rest) > MAX_LINE_BYTES or not chunk):
                lines, rest = [*lines, rest], b""
            shown: list[str] = []
            for line in lines:
                text = line.decode(errors="replace")
                self._transcript.add(text)
                shown += read_line(text)
            # People see the last lines only, so a flood costs little.
            for text in shown[-MAX_LINES:]:
                self._transcript.show(text)

    def _unread(self, reading: "list[asyncio.Task[None]]") -> _Ending | None:
        """Return why the output was not read completely, or None."""
        tasks = [task for task in reading if task.done() and not task.cancelled()]
        if faults := [fault for task in tasks if (fault := task.exception())]:
            return OutcomeKind.FAILED, f"the output of the agent cannot be read: {faults!r}"
        if self._size > (most := self._limits.output_bytes):
            return OutcomeKind.FLOODED, f"the agent wrote more than {most:,} bytes"
        return None

    def _exceeded(self, deadline: float) -> _Ending | None:
        """Return the limit that the agent exceeds, or None."""
        limits, usage, now = self._limits, self._reader.usage, asyncio.get_running_loop().time()
        retrying = self._reader.retrying
        self._stuck_since = (self._stuck_since or now) if retrying else None
        if limits.tokens is not None and usage.tokens > limits.tokens:
            return OutcomeKind.OVER_CAP, f"the agent used more than {limits.tokens:,} tokens"
        if limits.cost_micros is not None and usage.cost_micros > limits.cost_micros:
            dollars = limits.cost_micros / MICROS_PER_DOLLAR
            return OutcomeKind.OVER_CAP, f"the agent used more than ${dollars:.2f}"
        if now > deadline:
            return OutcomeKind.TIMEOUT, f"the agent took more than {limits.seconds:g} seconds"
        if self._stuck_since and now > self._stuck_since + limits.patience_seconds:
            return self._adapter.errors.classify(self._reader.errors), str(retrying)
        return None

    def _outcome(self, report: Mapping[str, Any], result_text: str | None) -> Outcome:
        reader = self._reader
        kind, message = self._end or self._ending(report)
        return Outcome(
            kind,
            message,
            result_text or reader.text,
            reader.result if result_text is None else parse_json(result_text),
            reader.usage,
            reader.conversation,
            f"{reader.resets or ''} {reader.all_errors}",
        )

    def _ending(self, report: Mapping[str, Any]) -> _Ending:
        last = " ".join(self._reader.errors.split())[-MAX_SHOWN_LENGTH:]
        if not report:
            return OutcomeKind.FAILED, f"the process that owns the agent was killed: {last}"
        if "error" in report:
            return OutcomeKind.FAILED, f"the agent did not start: {report['error']}"
        if report["overMemory"]:
            size = f"{self._limits.memory_bytes or 0:,}"
            return OutcomeKind.OVER_MEMORY, f"the agent used more than {size} bytes; it was ended"
        if report["code"] == 0 and not self._reader.has_failed:
            return OutcomeKind.DONE, ""
        code = report["code"]
        ended = f"signal {-code}" if code < 0 else f"status {code}"
        message = f"the agent ended with {ended}" + (f": {last}" if last else "")
        return self._adapter.errors.classify(self._reader.errors), message


async def _report(channel: socket.socket) -> dict[str, Any]:
    """Return the keeper's report; an empty one if the keeper was killed."""
    content = b""
    with suppress(OSError):
        while piece := await asyncio.get_running_loop().sock_recv(channel, 4096):
            content += piece
    return json.loads(content) if content else {}


def _result_text(path: Path) -> str | None:
    """Return the content of the file `$WAYBOOK_RESULT`, if there is one."""
    # The agent may have made the file a link, a pipe or a folder.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            return file.read(MAX_RESULT_BYTES).decode(errors="replace")
    return None


def end_leftovers() -> int:
    """Kill the agents of dead workers, and remove their files; return the number of processes."""
    count = keeper.kill_marked(_is_dead)
    for folder in private_folders().glob("*.*.*"):
        if _is_dead(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    return count


def _is_dead(mark: str) -> bool:
    pid, _, rest = mark.partition(".")
    return pid.isdigit() and keeper.read_stat(int(pid))[2] != rest.partition(".")[0]


def private_folders() -> Path:
    """Return the folder of the prompts and configurations of running agents."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("XDG_RUNTIME_DIR") or cache) / "waybook-agents"


def prepare(adapter: Adapter, task: Task, private: Path) -> tuple[list[str], dict[str, str]]:
    """Write the files of a run into a private folder; return its command and environment."""
    (private / "prompt.md").write_text(task.prompt, "utf-8")
    (private / "schema.json").write_text(json.dumps(task.schema), "utf-8")
    flags: list[str] = []
    environment = {**variables_of(adapter), "WAYBOOK_RESULT": str(private / "result")}
    if task.mcp_server is not None:
        flags, variables = configure(adapter, task.mcp_server, private / "mcp.json")
        environment |= variables
    known = {
        "model": adapter.model,
        "conversation": task.resume,
        "schema": task.schema and json.dumps(task.schema),
        "schema_file": task.schema and private / "schema.json",
        "prompt_file": private / "prompt.md",
        "mcp_file": task.mcp_server and private / "mcp.json",
        "folder": task.folder,
        "private": private,
    }
    values = {f"{{{name}}}": str(value) for name, value in known.items() if value}
    lists = {"{permissions}": adapter.permissions, "{mcp_flags}": flags}
    words: list[str] = []
    for item in (*adapter.wrap, *adapter.command):
        if isinstance(item, str):
            words += lists.get(item, (item,))
        elif all(name in values for name in _PLACEHOLDER.findall(" ".join(item))):
            words += item
    # One pass, so that a value that contains a placeholder is not replaced again.
    absent = {f"{{{name}}}": "" for name in known}
    values = {**absent, "{schema_file}": str(private / "schema.json"), **values}
    filled = [_PLACEHOLDER.sub(lambda match: values.get(match[0], match[0]), w) for w in words]
    return filled, {**environment, **task.environment}
