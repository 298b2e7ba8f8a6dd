"""Dashboard server within a stdio process, so that the links in its replies open in a browser.

The HTTP application is loaded only when a browser connects, because most stdio processes never need
it.
"""

import asyncio
import logging
import socket
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from waybook.bootstrap import Application
from waybook.cli.lazy import load
from waybook.errors import Misconfigured, WaybookError
from waybook.page_address import PageClaim, can_serve_pages, current_base_url
from waybook.settings import LoadedSettings, Settings
from waybook.transport.http.server import listen, serve_in_background

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.5


#: A listening socket, and the settings with its port.
OpenPort: TypeAlias = tuple[socket.socket, Settings]


class PageServer:
    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._claim: PageClaim | None = None
        self._port: OpenPort | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False

    def base_url(self) -> str:
        """Return the base URL for dashboard links. If no process serves them, open a port first."""
        port = self._try_open()
        return port[1].base_url if port else current_base_url(self._loaded.settings)

    def start(self, application: Application) -> None:
        """Serve the dashboard in the background while no other process serves it."""
        if not can_serve_pages(self._loaded.settings):
            return
        try:
            self._claim = PageClaim(self._loaded.settings, "waybook mcp")
        except WaybookError as error:
            self._give_up(error)
            return
        self._try_open()
        self._task = asyncio.create_task(self._run(application))

    async def stop(self) -> None:
        self._is_ending = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._close()
        self._claim = None

    def _try_open(self) -> OpenPort | None:
        if self._port is None and self._claim is not None:
            try:
                if not self._claim.is_server_running() and self._claim.try_take():
                    self._port = _open_port(self._loaded.settings, self._claim.last_port)
                    self._claim.record(self._port[1].base_url)
            except (OSError, WaybookError) as error:
                self._give_up(error)
        return self._port

    async def _run(self, application: Application) -> None:
        while self._claim is not None:
            try:
                if port := self._try_open():
                    await self._serve(application, port, self._claim)
                else:
                    await asyncio.sleep(POLL_SECONDS)
            except Exception as error:  # noqa: BLE001 - no failure here may affect the tools
                self._give_up(error)

    async def _serve(self, application: Application, port: OpenPort, claim: PageClaim) -> None:
        """Serve the dashboard until a `waybook serve` process starts and takes over."""
        listening, settings = port

        def end_streams() -> None:
            if self._is_ending:
                application.dispatcher.bus.close()

        try:
            if await _wait_connected(listening, claim):
                build = await asyncio.to_thread(load, "waybook.cli.operator.serve:build_http_app")
                app = build(application, replace(self._loaded, settings=settings))
                async with serve_in_background(app, listening, end_streams):
                    while not claim.is_server_running():  # noqa: ASYNC110 - another process
                        await asyncio.sleep(POLL_SECONDS)
        finally:
            self._close()

    def _close(self) -> None:
        # Close the port before releasing the right to serve the dashboard, so that the next process
        # with this right can open the same port.
        if self._port is not None:
            self._port[0].close()
            self._port = None
        if self._claim is not None:
            self._claim.close()

    def _give_up(self, error: Exception) -> None:
        message = error.message if isinstance(error, WaybookError) else error
        log.warning("the dashboard is not served by this process: %s", message)
        self._close()
        self._claim = None


def _open_port(settings: Settings, last: int | None) -> OpenPort:
    """Open a port. Try the last used one, then the configured one, then any free one."""
    for port in dict.fromkeys((last or settings.port, settings.port)):
        with suppress(Misconfigured):
            return _listen(settings, port)
    return _listen(settings, 0)


def _listen(settings: Settings, port: int) -> OpenPort:
    listening = listen(settings.host, port)
    return listening, replace(settings, port=listening.getsockname()[1])


async def _wait_connected(listening: socket.socket, claim: PageClaim) -> bool:
    """Wait for a connection. Return False if a `waybook serve` process starts first."""
    loop, is_connected = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, is_connected.set)
    try:
        while not is_connected.is_set():
            if claim.is_server_running():
                return False
            with suppress(TimeoutError):
                await asyncio.wait_for(is_connected.wait(), POLL_SECONDS)
    finally:
        loop.remove_reader(listening)
    return True
