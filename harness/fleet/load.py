"""Agents that work through plans on a fleet, and counts of their failed and repeated calls."""

import asyncio
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from faults.wire import HTTP_OK, Address, Broken, Overdue, Wire

#: Timeout of one request for a call, and maximum number of requests for a call.
ATTEMPT_SECONDS: Final = 20.0
MAX_ATTEMPTS: Final = 20
STEPS: Final = 10
BALANCER: Final = "balancer"


class Refused(AssertionError):
    """A call was refused, and repeating it would not help."""


@dataclass(slots=True)
class Phase:
    """Counts of the calls in a phase of the test, such as a rolling restart."""

    name: str
    calls: int = 0
    #: Number of requests without a usable answer, by cause.
    failed_attempts: dict[str, int] = field(default_factory=dict)
    #: Number of calls that succeeded after a failed request, and of calls that never succeeded.
    healed: int = 0
    lost: int = 0
    seconds: list[float] = field(default_factory=list)

    def note_failure(self, cause: str) -> None:
        self.failed_attempts[cause] = self.failed_attempts.get(cause, 0) + 1


class Load:
    """Agents that work at the same time until `is_running` is false."""

    def __init__(self, address: Address, token: str, prefix: str = "fleet") -> None:
        self.phase = Phase("start")
        self.is_running = True
        self.max_attempts = MAX_ATTEMPTS
        self.max_pause_seconds = 1.0
        #: For each completed plan, the number of its acknowledged results.
        self.completed: dict[str, int] = {}
        self._address, self._token, self._prefix = address, token, prefix
        self._numbers = itertools.count()

    def begin(self, name: str) -> Phase:
        """Start a new phase of counting."""
        self.phase = Phase(name)
        return self.phase

    async def run(self, agents: int) -> None:
        """Let the agents work until `is_running` is false."""
        async with asyncio.TaskGroup() as group:
            for number in range(agents):
                group.create_task(self._agent(f"agent-{number}"))

    async def _agent(self, session: str) -> None:
        wire = Wire({BALANCER: self._address}, self._token)
        try:
            while self.is_running:
                await self._work_through(wire, session)
        finally:
            wire.close()

    async def _work_through(self, wire: Wire, session: str) -> None:
        steps = [{"stepType": "search", "instructions": "Look."}] * STEPS
        plan = {"name": session, "researchQuestion": "Does it last?", "steps": steps}
        made = await self.call(wire, "create_research_plan", plan)
        for _ in range(STEPS):
            named = {"planId": made["planId"], "sessionId": session}
            ready = await self.call(wire, "get_next_step", named)
            held = {"stepId": ready["stepId"], "attempt": ready["attempt"], "sessionId": session}
            result = {"resultSummary": '{"found": 1}', "confidence": 0.9}
            await self.call(wire, "submit_step_result", {**held, **result})
        self.completed[made["planId"]] = STEPS

    async def call(self, wire: Wire, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Make a call, and repeat it with the same idempotency key until it is answered."""
        phase, begun = self.phase, time.monotonic()
        keyed = {**arguments, "idempotencyKey": f"{self._prefix}-{next(self._numbers)}"}
        phase.calls += 1
        for attempt in range(self.max_attempts):
            reply = await self._attempt(wire, tool, keyed, phase)
            if reply is not None:
                phase.seconds.append(time.monotonic() - begun)
                phase.healed += attempt > 0
                return reply
            await asyncio.sleep(min(0.05 * (attempt + 1), self.max_pause_seconds))
        phase.lost += 1
        raise AssertionError(f"{tool} was not answered after {self.max_attempts} requests")

    async def _attempt(
        self, wire: Wire, tool: str, arguments: Mapping[str, object], phase: Phase
    ) -> dict[str, Any] | None:
        try:
            answer = await wire.call(BALANCER, tool, arguments, ATTEMPT_SECONDS)
        except Broken as error:
            phase.note_failure(f"broken connection {error}"[:60])
            return None
        except Overdue:
            phase.note_failure("no answer in time")
            return None
        if answer.status != HTTP_OK:
            phase.note_failure(f"status {answer.status}")
            return None
        refused, body = answer.tool_result()
        if refused:
            code = body["error"]["code"]
            if code not in {"UNAVAILABLE", "BUSY"}:
                raise Refused(body)
            phase.note_failure(code)
            return None
        return body
