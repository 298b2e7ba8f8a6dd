"""Stdio MCP server that lists tools immediately, and runs calls when the database is ready."""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Protocol

from starlette.requests import Request

from waybook.app.request.caller import Caller
from waybook.cli.lazy import load
from waybook.core.decision_context import Channel
from waybook.errors import Unauthenticated, Unavailable, WaybookError
from waybook.settings import LoadedSettings
from waybook.transport.gateway import DispatcherPort, ToolGateway
from waybook.transport.mcp.conversation_files import FOLDER, ConversationFiles
from waybook.transport.mcp.server import build_server
from waybook.transport.mcp.stdio import serve_stdio
from waybook.transport.mcp.tools import published_tools

log = logging.getLogger(__name__)

#: The code for tool calls is loaded after this delay, so that the tool list is answered first.
_STARTUP_DELAY_SECONDS: Final = 1.0
#: Maximum seconds that a call waits for the database at startup.
_MAX_CALL_WAIT_SECONDS: Final = 20.0


class _StdioApplication(Protocol):
    @property
    def dispatcher(self) -> DispatcherPort: ...

    async def caller_resolver(self, channel: Channel) -> Caller: ...


class _DeferredStartup:
    """Starts the application in the background. If that fails, the next tool call retries."""

    def __init__(self, loaded: LoadedSettings, stack: AsyncExitStack) -> None:
        self._loaded = loaded
        self._stack = stack
        self._task: asyncio.Task[_StdioApplication] | None = None

    def start(self) -> asyncio.Task[_StdioApplication]:
        task = self._task
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            self._task = task = asyncio.create_task(self._open())
        return task

    async def _open(self) -> _StdioApplication:
        running = await asyncio.to_thread(load, "waybook.bootstrap:start_application")
        pages = (await asyncio.to_thread(load, "waybook.cli.stdio.pages:PageServer"))(self._loaded)
        try:
            services: _StdioApplication = await self._stack.enter_async_context(
                running(
                    self._loaded.settings,
                    waiting=partial(log.warning, "waiting for the database: %s (%.0f of %.0f s)"),
                    find_base_url=pages.base_url,
                )
            )
        except WaybookError as error:
            # Log no traceback. The next tool call returns the error to the agent.
            log.error("cannot start: %s", error.message)  # noqa: TRY400 - the message says the cause
            raise
        self._stack.push_async_callback(pages.stop)
        pages.start(services)
        return services

    async def wait_ready(self) -> _StdioApplication:
        """Wait for the application. After a timeout, the startup continues in the background.

        Raises:
            Unavailable: the application is not running yet.
        """
        try:
            async with asyncio.timeout(_MAX_CALL_WAIT_SECONDS):
                return await asyncio.shield(self.start())
        except TimeoutError:
            raise Unavailable("the database is still starting; repeat the call") from None

    async def stop(self) -> None:
        """Cancel the startup if it is in progress. The exit stack closes a running application."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def serve(loaded: LoadedSettings) -> None:
    asyncio.run(_serve(loaded))


async def _serve(loaded: LoadedSettings) -> None:
    async with AsyncExitStack() as stack:
        opening = _DeferredStartup(loaded, stack)

        async def dispatcher() -> DispatcherPort:
            return (await opening.wait_ready()).dispatcher

        async def caller(_: Request | None) -> Caller:
            return await (await opening.wait_ready()).caller_resolver(Channel.MCP)

        async def still(_: Request | None) -> bool:
            try:
                await caller(None)
            except Unauthenticated:
                return False
            return True

        timer = asyncio.get_running_loop().call_later(_STARTUP_DELAY_SECONDS, opening.start)
        try:
            gateway = ToolGateway(dispatcher, caller, still)
            folder = loaded.settings.data_dir / FOLDER
            files = ConversationFiles.of_process(folder, os.environ)
            server = build_server(
                published_tools(),
                gateway,
                profile=loaded.settings.tools,
                is_persistent=True,
                conversations=files,
            )
            await serve_stdio(server)
        finally:
            timer.cancel()
            await opening.stop()
