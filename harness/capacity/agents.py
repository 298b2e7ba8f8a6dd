"""Simulated agents that work through plans on a fleet of servers, and pause between calls."""

import asyncio
import contextlib
import math
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final, NamedTuple

from faults.wire import Address, Wire
from fleet.load import BALANCER, Load

STEPS: Final = 10
#: Standard deviation of the logarithm of an agent's pause between two calls.
SIGMA: Final = 0.8
#: Share of steps that their agents abandon, and share of plans for which a second agent waits.
ABANDONED: Final = 0.02
WAITING: Final = 0.1
WAIT_SECONDS: Final = 10
INSTRUCTIONS: Final = "Read the three newest sources and note where they disagree. " * 4
RESULT: Final = '{"findings": "Three sources agree; one is older.", "sources": [1, 2, 3]}'
#: Maximum number of tries of a call. An overloaded fleet refuses some calls.
MAX_ATTEMPTS: Final = 60


class Workload(NamedTuple):
    """Number of agents, and their mean pause."""

    agents: int
    think_seconds: float


class Simulation:
    def __init__(self, workload: Workload, address: Address, token: str) -> None:
        self.abandoned = 0
        prefix = secrets.token_hex(4)
        self.calls = Load(address, token, f"simulated-{prefix}")
        self.waits = Load(address, token, f"waiting-{prefix}")
        self.calls.max_attempts = self.waits.max_attempts = MAX_ATTEMPTS
        self._mean_seconds = workload.think_seconds
        self._address, self._token = address, token
        self._random = random.SystemRandom()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End the simulation; each agent first submits the step that it holds.

        Otherwise, these steps would stall during the next simulation.
        """
        self._stopping.set()

    async def run_agent(self, number: int, delay: float) -> None:
        """Work through one plan after the other until the simulation is stopped."""
        await self._pause(delay)
        # The first plans differ in length, so that agents do not create their next plans at the
        # same time.
        steps = self._random.randint(1, STEPS)
        async with self._wire() as wire:
            for plan in count():
                if self._stopping.is_set():
                    return
                await self._work_through(wire, f"agent-{number}-{plan}", steps)
                steps = STEPS

    async def _work_through(self, wire: Wire, session: str, steps: int) -> None:
        all_steps = [{"stepType": "search", "instructions": INSTRUCTIONS}] * steps
        arguments = {"name": session, "researchQuestion": "Does it scale?", "steps": all_steps}
        plan = await self.calls.call(wire, "create_research_plan", arguments)
        for number in range(steps):
            if self._stopping.is_set():
                return
            named = {"planId": plan["planId"], "sessionId": session}
            step = await self.calls.call(wire, "get_next_step", named)
            if self._random.random() < ABANDONED:
                self.abandoned += 1
                return
            last = number == steps - 1
            joined = last and self._random.random() < WAITING
            async with self._joined(named) if joined else contextlib.nullcontext():
                await self._think()
                held = {"stepId": step["stepId"], "attempt": step["attempt"], "sessionId": session}
                result = {"resultSummary": RESULT, "confidence": 0.8}
                await self.calls.call(wire, "submit_step_result", {**held, **result})

    @asynccontextmanager
    async def _joined(self, named: dict[str, object]) -> AsyncIterator[None]:
        """While the block completes the last step, let a second agent wait for work on the plan."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wait(named))
            yield

    async def _wait(self, named: dict[str, object]) -> None:
        arguments = {**named, "sessionId": "second", "waitSeconds": WAIT_SECONDS}
        async with self._wire() as wire:
            await self.waits.call(wire, "get_next_step", arguments)

    async def _think(self) -> None:
        center = math.log(self._mean_seconds) - SIGMA**2 / 2
        await self._pause(self._random.lognormvariate(center, SIGMA))

    async def _pause(self, seconds: float) -> None:
        """Wait this many seconds, or until the simulation is stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    @asynccontextmanager
    async def _wire(self) -> AsyncIterator[Wire]:
        wire = Wire({BALANCER: self._address}, self._token)
        try:
            yield wire
        finally:
            wire.close()
