"""One process of an agent with all processes it starts, within limits."""

import asyncio
import json
import os
import re
import secrets
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from waybook.work import keeper
from waybook.work.adapters import Adapter
from waybook.work.mcp_config import configure
from waybook.work.output import OutputReader
from waybook.work.results import parse_json
from waybook.work.tasks import Limits, OutcomeKind, Round, Task, Usage
from waybook.work.transcript import (
    MAX_SHOWN_LENGTH,
    PASSED,
    Transcript,
    allowed_variables,
)

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
#: Lines of each piece of output that people see.
MAX_LINES: Final = 20
MAX_RESULT_BYTES: Final = 4 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024
#: The keeper gets this long, beyond the grace of the agent, before it is killed too.
_KEEPER_SECONDS = 10.0


class AgentRun:
    """One process of an agent, from its start to the end of all its processes."""

    def __init__(
        self,
        adapter: Adapter,
        task: Task,
        limits: Limits,
        transcript: Transcript,
        before: Usage,
    ) -> None:
        """Prepare a run. `before` is the usage of earlier runs of the same conversation."""
        self._adapter, self._task, self._limits = adapter, task, limits
        self._transcript = transcript
        self.reader = OutputReader(adapter, before)
        self.kind: OutcomeKind | None = None
        self.message = ""
        #: Content of the file `$WAYBOOK_RESULT`.
        self.result_text: str | None = None
        self._size = 0
        self._mark = f"{os.getpid()}.{keeper.read_stat(os.getpid())[2]}.{secrets.token_hex(8)}"
        self._channel, self._far_end = socket.socketpair()
        self._timers: list[asyncio.TimerHandle] = []
        self._patience: asyncio.TimerHandle | None = None
        self._process: Process | None = None

    async def run(self) -> Round:
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
                self._stop(OutcomeKind.FAILED, "the agent was canceled")
                await asyncio.wait([running])
                raise
            finally:
                for timer in filter(None, [*self._timers, self._patience]):
                    timer.cancel()
                self._channel.close()
                self._far_end.close()

    async def _run(self, private: Path) -> Round:
        try:
            process = await self._start(private)
        except OSError as error:
            self._stop(OutcomeKind.FAILED, f"the agent cannot be started: {error}")
            return self._conclude({}, 0)
        self._process = process
        self._far_end.close()
        self._channel.setblocking(False)  # noqa: FBT003 - the only form
        loop = asyncio.get_running_loop()
        message = f"the agent took more than {self._limits.seconds:g} seconds"
        if self.kind is not None:
            self._channel.shutdown(socket.SHUT_WR)  # It was canceled while it started.
        self._timers.append(
            loop.call_later(self._limits.seconds, self._stop, OutcomeKind.TIMEOUT, message)
        )
        reading = [
            asyncio.ensure_future(self._read(process.stdout, self.reader.read)),
            asyncio.ensure_future(self._read(process.stderr, self.reader.read_error)),
        ]
        for task in reading:
            task.add_done_callback(self._check_reader)
        report = await self._report()
        # The agent may have killed the keeper, so look for processes without an owner.
        escaped = await asyncio.to_thread(keeper.kill_marked, self._mark.__eq__)
        await asyncio.wait(reading, timeout=_KEEPER_SECONDS)
        for task in reading:
            task.cancel()
        # A process that could not be killed may keep the output open.
        with suppress(TimeoutError):
            async with asyncio.timeout(_KEEPER_SECONDS):
                await process.wait()
        self._read_result(private / "result")
        return self._conclude(report, escaped)

    async def _start(self, private: Path) -> Process:
        command, environment = prepare(self._adapter, self._task, private)
        words = (str(self._limits.grace_seconds), str(self._limits.memory_bytes or 0), *command)
        number = self._far_end.fileno()
        with (private / "prompt.md").open("rb") as prompt:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", keeper.__file__, self._mark, str(number), *words),
                cwd=self._task.folder,
                env=environment,
                stdin=prompt,
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=[number],
                start_new_session=True,
            )

    def _check_reader(self, task: "asyncio.Task[None]") -> None:
        """End an agent whose output is not read to its end, because it would wait forever."""
        if not task.cancelled() and (error := task.exception()):
            self._stop(OutcomeKind.FAILED, f"the output of the agent cannot be read: {error!r}")

    async def _report(self) -> dict[str, Any]:
        """Return the keeper's report; an empty one if the keeper was killed."""
        content = b""
        with suppress(OSError):
            while piece := await asyncio.get_running_loop().sock_recv(self._channel, 4096):
                content += piece
        return json.loads(content) if content else {}

    def _stop(self, kind: OutcomeKind, message: str) -> None:
        """End the agent. The first reason counts."""
        if self.kind is not None:
            return
        self.kind, self.message = kind, message
        if self._process is None:
            return
        self.message += "; it was ended"
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        seconds = self._limits.grace_seconds + _KEEPER_SECONDS
        self._timers.append(asyncio.get_running_loop().call_later(seconds, self._kill_keeper))

    def _kill_keeper(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _read(
        self, stream: asyncio.StreamReader | None, read_line: Callable[[str], list[str]]
    ) -> None:
        """Read the output to its end. What exceeds the limit is dropped."""
        rest = b""
        while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
            self._size += len(chunk)
            if self._size > self._limits.output_bytes:
                size = f"{self._limits.output_bytes:,}"
                self._stop(OutcomeKind.FLOODED, f"the agent wrote more than {size} bytes")
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            self._read_lines(lines, read_line)
        self._read_lines([rest] if rest else [], read_line)

    def _read_lines(self, lines: list[bytes], read_line: Callable[[str], list[str]]) -> None:
        shown: list[str] = []
        for line in lines:
            text = line.decode(errors="replace")
            self._transcript.add(text)
            shown += read_line(text)
        # People see the last lines only, so a flood costs little.
        for text in shown[-MAX_LINES:]:
            self._transcript.show(text)
        self._check_usage()
        self._watch_retries()

    def _check_usage(self) -> None:
        usage = self.reader.usage
        tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        if self._limits.tokens is not None and tokens > self._limits.tokens:
            message = f"the agent used more than {self._limits.tokens:,} tokens"
            self._stop(OutcomeKind.OVER_CAP, message)
        cost, cap = usage.cost_micros or 0, self._limits.cost_micros
        if cap is not None and cost > cap:
            self._stop(OutcomeKind.OVER_CAP, f"the agent used more than ${cap / 1e6:.2f}")

    def _watch_retries(self) -> None:
        """Start the agent's patience with its first retry, and end it with the next progress."""
        if self.reader.retrying is None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
        elif self._patience is None:
            seconds = self._limits.patience_seconds
            self._patience = asyncio.get_running_loop().call_later(seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        kind = self._adapter.errors.classify(self.reader.errors) or OutcomeKind.FAILED
        self._stop(OutcomeKind(kind), self._transcript.mask(str(self.reader.retrying)))

    def _read_result(self, path: Path) -> None:
        # The agent may have made the file a link, a pipe or a folder.
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
                self.result_text = file.read(MAX_RESULT_BYTES).decode(errors="replace")

    def _conclude(self, report: Mapping[str, Any], escaped: int) -> Round:
        """Return the outcome, and note the processes that had to be killed."""
        left = report.get("left", 0) + escaped
        if left:
            self._transcript.note(f"{left} processes that the agent had left running were ended")
        if self.kind is None:
            self.kind, self.message = self._ending(report)
        reader = self.reader
        return Round(
            self.kind,
            self.message,
            self.result_text or reader.text,
            reader.result if self.result_text is None else parse_json(self.result_text),
            reader.usage,
            reader.conversation,
            f"{reader.resets or ''} {reader.all_errors}",
        )

    def _ending(self, report: Mapping[str, Any]) -> tuple[OutcomeKind, str]:
        if not report:
            last = " ".join(self.reader.errors.split())[-MAX_SHOWN_LENGTH:]
            return OutcomeKind.FAILED, f"the process that owns the agent was killed: {last}"
        if "error" in report:
            return OutcomeKind.FAILED, f"the agent did not start: {report['error']}"
        if report["overMemory"]:
            size = f"{self._limits.memory_bytes or 0:,}"
            return OutcomeKind.OVER_MEMORY, f"the agent used more than {size} bytes; it was ended"
        if report["code"] == 0 and not self.reader.has_failed:
            return OutcomeKind.DONE, ""
        errors = self.reader.errors
        kind = self._adapter.errors.classify(errors) or OutcomeKind.FAILED
        last = " ".join(errors.split())[-MAX_SHOWN_LENGTH:]
        code = report["code"]
        ended = f"signal {-code}" if code < 0 else f"status {code}"
        return OutcomeKind(kind), f"the agent ended with {ended}" + (f": {last}" if last else "")


def private_folders() -> Path:
    """Return the folder of the prompts and configurations of running agents."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("XDG_RUNTIME_DIR") or cache) / "waybook-agents"


def prepare(adapter: Adapter, task: Task, private: Path) -> tuple[list[str], dict[str, str]]:
    """Write the files of a run into a private folder; return its command and environment."""
    (private / "prompt.md").write_text(task.prompt, "utf-8")
    (private / "schema.json").write_text(json.dumps(task.schema), "utf-8")
    flags: list[str] = []
    environment = {
        **allowed_variables(os.environ, (*PASSED, *adapter.pass_variables)),
        **adapter.set_variables,
        "WAYBOOK_RESULT": str(private / "result"),
    }
    if task.mcp_server is not None:
        flags, variables = configure(adapter, task.mcp_server, private / "mcp.json")
        environment |= variables
    words = [
        *adapter.command,
        *(adapter.resume_flags if task.resume else ()),
        *adapter.permissions,
        *adapter.base_flags,
        *(adapter.model_flags if adapter.model else ()),
        *(adapter.schema_flags if task.schema is not None else ()),
        *flags,
        *adapter.prompt_flags,
    ]
    values = {
        "model": adapter.model or "",
        "conversation": task.resume or "",
        "schema": json.dumps(task.schema),
        "schema_file": str(private / "schema.json"),
        "prompt_file": str(private / "prompt.md"),
        "mcp_file": str(private / "mcp.json"),
        "folder": str(task.folder),
        "private": str(private),
    }
    # One pass, so that a value that contains a placeholder is not replaced again.
    fill = re.compile("|".join(rf"\{{{name}\}}" for name in values))
    filled = [
        fill.sub(lambda match: values[match[0][1:-1]], word) for word in (*adapter.wrap, *words)
    ]
    return filled, {**environment, **task.environment}
