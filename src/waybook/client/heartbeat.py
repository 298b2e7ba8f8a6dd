"""Heartbeats that keep a step or job with its holder while the holder works."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from waybook.errors import NotFound, Refused, WaybookError

log = logging.getLogger(__name__)


TASK_NAME = "waybook-heartbeat"


class Heartbeat:
    def __init__(
        self,
        beat: Callable[[], Awaitable[None]],
        interval_seconds: float,
        on_lost: Callable[[WaybookError], None],
    ) -> None:
        """Call `beat` at intervals in the background. Once it is refused, call `on_lost`."""
        self._beat = beat
        self._interval_seconds = interval_seconds
        self._on_lost = on_lost
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        if not self.is_running:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=TASK_NAME)

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        # Unlike `await task`, this raises CancelledError only if the caller is canceled.
        await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self._beat()
            except (NotFound, Refused) as error:
                self._on_lost(error)
                return
            except WaybookError as error:
                # A claim survives a missed heartbeat, so the work continues during a server outage.
                log.warning("heartbeat failed, next one in %g s: %s", self._interval_seconds, error)
