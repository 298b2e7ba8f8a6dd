"""Steps and jobs that a worker holds: they can be given back, and an agent may end its own step."""

from abc import abstractmethod
from datetime import datetime
from typing import Final

from waybook.client import HoldLost, Job, Step
from waybook.client.claims import Claim, State, describe_error
from waybook.errors import NotModifiable
from waybook.json_values import format_time

_HEARTBEAT_TOKENS: Final = 500
_FAILURE_TOKENS: Final = 8_000


class Held(Claim):
    """Step or job that a worker holds."""

    async def give_back(
        self, reason: str, *, resumes_at: datetime | None = None, agent: str | None = None
    ) -> None:
        """Let another agent claim it. This does not count as a failed attempt."""
        await self._end(
            "give_back",
            **{f"{self.KIND}Id": self.id},
            attempt=self.attempt,
            reason=reason,
            resumesAt=format_time(resumes_at),
            agent=agent,
        )

    @abstractmethod
    async def failures(self) -> int:
        """Return how often attempts have failed. Attempts that were given back do not count."""

    @abstractmethod
    async def end_attempt(self, reason: str, *, may_retry: bool) -> None:
        """Report a failed attempt, after which there may be another one."""

    async def _give_back(self, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            await self.end_attempt(describe_error(error), may_retry=True)
        else:
            await self.give_back("the worker was stopped")


class HeldStep(Held, Step):
    #: Whether the agent has completed the step with Waybook's tools, or has requested a review.
    is_ended_by_agent = False

    def keep(self) -> bool:
        """Do not give the step back when its work is canceled; return False if it is lost."""
        self._on_error = "keep"
        return self._state is not State.LOST

    async def look(self) -> str:
        """Return the status of the step, or "lost" if a later attempt has begun."""
        reply = await self.context(_HEARTBEAT_TOKENS)
        status = reply["status"] if reply["attempt"] == self.attempt else "lost"
        if status in {"completed", "awaiting_input"}:
            self.is_ended_by_agent = True
            self._state = State.ENDED
        return status

    async def failures(self) -> int:
        return len((await self.context(_FAILURE_TOKENS)).get("failures", ()))

    async def _beat(self) -> None:
        status = await self.look()
        if status != "in_progress" and not self.is_ended_by_agent:
            raise HoldLost(f"the step is {status}")

    async def end_attempt(self, reason: str, *, may_retry: bool) -> None:
        try:
            await self.fail(reason, retry=may_retry)
        except NotModifiable:  # No step can be failed while a review is open.
            await self.give_back(reason)


class HeldJob(Held, Job):
    async def failures(self) -> int:
        return self.attempt - 1

    async def end_attempt(self, reason: str, *, may_retry: bool) -> None:
        await self.fail(reason, retryable=may_retry)
