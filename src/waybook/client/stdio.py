"""Connection to a Waybook server that the client starts, over its standard input and output."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from waybook.client.connection import REVISION, Connection
from waybook.client.errors import Unreachable, error_in_answer

DEFAULT_COMMAND: Final = (sys.executable, "-m", "waybook", "mcp", "--tools", "all")
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
#: The server is killed if it runs for this many seconds after its input was closed.
MAX_EXIT_SECONDS: Final = 10.0
DEFAULT_NAME: Final = "waybook.client"


class StdioConnection(Connection):
    def __init__(
        self,
        *command: str,
        timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
        name: str = DEFAULT_NAME,
    ) -> None:
        """Prepare a server process. It starts with the first call.

        If the process has ended, the next call starts it again. `timeout` is in seconds for each
        try of a call and includes the start. `name` is the name of the client.
        """
        self._command = command or DEFAULT_COMMAND
        self.url = f"stdio: {' '.join(self._command)}"
        self.timeout = timeout
        self._env = env
        self._name = name
        self._starting = asyncio.Lock()
        self._server: _Server | None = None

    async def _send(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        return await (await self._running()).ask(method, params)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def _running(self) -> "_Server":
        async with self._starting:
            if self._server is not None and self._server.has_ended:
                await self.close()
            if self._server is None:
                process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=PIPE, stdout=PIPE, env=self._env, limit=MAX_LINE_BYTES
                )
                self._server = _Server(process, self._name)
            await self._server.initialize()
            return self._server


class _Server:
    """Server process, and the requests it has not answered."""

    def __init__(self, process: Process, name: str) -> None:
        self._process, self._name = process, name
        self._stdin = cast("asyncio.StreamWriter", process.stdin)
        self._stdout = cast("asyncio.StreamReader", process.stdout)
        self._last_id = 0
        self._is_initialized = False
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def has_ended(self) -> bool:
        return self._reading.done()

    async def initialize(self) -> None:
        if self._is_initialized:
            return
        info = {"name": self._name, "version": "1"}
        client = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": info}
        await self.ask("initialize", client)
        self._send({"method": "notifications/initialized"})
        self._is_initialized = True

    async def ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        if self.has_ended:
            raise Unreachable("the server process has ended")
        self._last_id += 1
        number = self._last_id
        future = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            self._send({"id": number, "method": method, "params": params})
            answer: dict[str, Any] = await future
        except asyncio.CancelledError:
            self._send({"method": "notifications/cancelled", "params": {"requestId": number}})
            raise
        finally:
            self._pending.pop(number, None)
        if "error" in answer:
            raise error_in_answer(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    async def close(self) -> None:
        """Close the input of the process, so that it exits. Kill the process if it does not."""
        self._stdin.close()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_EXIT_SECONDS):
                    await self._process.wait()
        finally:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.kill()
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def _send(self, message: Mapping[str, object]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        self._stdin.write(line.encode())

    async def _read(self) -> None:
        try:
            async for line in self._stdout:
                # Skip lines that are not JSON, such as the output of print() in the server process.
                with suppress(ValueError):
                    message = json.loads(line)
                    future = self._pending.get(message.get("id", 0))
                    if future is not None and not future.done():
                        future.set_result(message)
        finally:
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(Unreachable("the server process ended without an answer"))
