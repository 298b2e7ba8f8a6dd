"""Agents that make calls with `waitSeconds`, and a clock that a test can advance."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from org_env import AgentClient, Body, OrgEnv
from patience import NOTICE_SECONDS
from waybook.app.request.wait_queue import WaitingCalls
from waybook.app.server_dispatcher import ServerDispatcher


class SkippedTimer:
    """Timer of a `SkippingLoop`, whose clock a test can advance."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()


class SkippingLoop:
    def __init__(self) -> None:
        self._skipped = 0.0
        self._timers: set[SkippedTimer] = set()

    def time(self) -> float:
        return asyncio.get_running_loop().time() + self._skipped

    def call_at(self, when: float, callback: Callable[[], None], /) -> SkippedTimer:
        def fire() -> None:
            self._timers.discard(timer)
            callback()

        timer = SkippedTimer(when, fire)
        self._timers.add(timer)
        self._start(timer)
        return timer

    def advance(self, seconds: float) -> None:
        """Advance the clock; the event loop then calls the timers that are due."""
        self._skipped += seconds
        for timer in self._timers:
            if timer.handle is not None and not timer.handle.cancelled():
                timer.cancel()
                self._start(timer)

    def _start(self, timer: SkippedTimer) -> None:
        delay = max(0.0, timer.when - self.time())
        timer.handle = asyncio.get_running_loop().call_later(delay, timer.callback)


@dataclass
class WaitingEnv:
    """Agent that makes calls with `waitSeconds`, and a clock that the test can advance."""

    world: OrgEnv
    most: int = 100
    most_of_org: int = 100
    loop: SkippingLoop = field(default_factory=SkippingLoop)

    def __post_init__(self) -> None:
        self.calls = WaitingCalls(self.most, self.most_of_org, loop=lambda: self.loop)
        services = replace(self.world.dispatcher.services, waiting=self.calls)
        dispatcher = ServerDispatcher(services, self.world.dispatcher.calls)
        self.agent = AgentClient(dispatcher, self.world.agent.caller)
        self.bus = services.bus

    async def started(
        self, tool: str, *, wait: int = 55, agent: AgentClient | None = None, **arguments: object
    ) -> asyncio.Task[Body]:
        before = len(self.calls)
        caller = agent or self.agent
        task = asyncio.create_task(caller.call(tool, waitSeconds=wait, **arguments))
        await self.until(lambda: len(self.calls) > before or task.done())
        assert not task.done(), task.result()
        return task

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(NOTICE_SECONDS):
            while not condition():  # noqa: ASYNC110 - calls report nothing before their answer
                await asyncio.sleep(0.001)


async def answered(task: asyncio.Task[Body]) -> Body:
    """Return the answer to a call that was started; fail if it takes too long."""
    async with asyncio.timeout(NOTICE_SECONDS):
        return await task


async def canceled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
