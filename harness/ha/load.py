"""Load during a failover of the database.

Acknowledged results are recorded, to check later that the database still has them.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from faults.wire import Address, Wire
from fleet.load import STEPS, Load, Refused

#: Pause of an agent after each answer, so that the machine is not fully busy.
PAUSE_SECONDS: Final = 0.05


class Acknowledged(NamedTuple):
    """Plan with an acknowledged result, and time of the acknowledgment."""

    plan_id: str
    at: float


class HaLoad(Load):
    """Agents that record acknowledged results, and abandon plans that a failover lost."""

    def __init__(self, address: Address, token: str, agents: int) -> None:
        super().__init__(address, token)
        self.max_attempts, self.max_pause_seconds = 2_000, 0.1
        #: Acknowledged results of this scenario, by step id.
        self.results: dict[str, Acknowledged] = {}
        self._agents = agents
        #: Times of all answers, by the agent's session.
        self._answers: dict[str, list[float]] = {}
        self._resumed_at = 0.0

    def await_answers_after(self, moment: float) -> None:
        """Set the time from which the database worked again; earlier answers do not count."""
        self._resumed_at = moment

    async def all_answered(self) -> bool:
        """Return whether every agent has had an answer since the database works again."""
        return len(self._first_answers()) == self._agents

    def last_first_answer(self) -> float:
        """Return the time when the last of the agents got its first answer after the failover."""
        return max(self._first_answers())

    def _first_answers(self) -> list[float]:
        later = [[at for at in times if at > self._resumed_at] for times in self._answers.values()]
        return [times[0] for times in later if times]

    async def _work_through(self, wire: Wire, session: str) -> None:
        with contextlib.suppress(Refused):
            steps = [{"stepType": "search", "instructions": "Look."}] * STEPS
            plan = {"name": session, "researchQuestion": "Does it last?", "steps": steps}
            made = await self._answered(wire, session, "create_research_plan", plan)
            for _ in range(STEPS):
                named = {"planId": made["planId"], "sessionId": session}
                ready = await self._answered(wire, session, "get_next_step", named)
                step = {"stepId": ready["stepId"], "attempt": ready["attempt"]}
                result = {"resultSummary": '{"found": 1}', "confidence": 0.9}
                call = {**step, **result, "sessionId": session}
                await self._answered(wire, session, "submit_step_result", call)
                self.results[ready["stepId"]] = Acknowledged(made["planId"], time.monotonic())

    async def _answered(
        self, wire: Wire, session: str, tool: str, arguments: Mapping[str, object]
    ) -> dict[str, Any]:
        reply = await self.call(wire, tool, arguments)
        self._answers.setdefault(session, []).append(time.monotonic())
        await asyncio.sleep(PAUSE_SECONDS)
        return reply
