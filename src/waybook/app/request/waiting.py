"""Lets calls wait for free work or a person's decision, up to a maximum time.

A waiting call holds no database connection, no transaction and no lock.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeAlias
from uuid import UUID

from pydantic import Field

from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.wait_queue import Nothing, Subject, Waiter, WaitQueue
from waybook.errors import Unauthenticated
from waybook.json_values import Body
from waybook.plan.model import MAX_WAIT_SECONDS
from waybook.store.calls import StoredAnswer
from waybook.store.driver.bus import Bus

#: Seconds after which a client should repeat a call that found nothing.
RETRY_AFTER_WORK_SECONDS: Final = 5
RETRY_AFTER_PERSON_SECONDS: Final = 30
_RETRY_AFTER_WAIT_SECONDS: Final = 1

WaitSeconds: TypeAlias = Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)]


class Attempt:
    def __init__(self, *, is_last: bool) -> None:
        self._is_last = is_last
        self.nothing: Nothing | None = None

    @property
    def is_answer(self) -> bool:
        """Return whether the reply is final, not "still waiting". Only final replies are stored."""
        return self._is_last or self.nothing is None

    def retry_advice(self) -> Body:
        if self.nothing is None:
            return {}
        _, seconds, free_in = self.nothing
        if free_in is not None:
            seconds = max(1, min(seconds, math.ceil(free_in)))
        return {"retryAfterSeconds": seconds}


_TryAnswer: TypeAlias = Callable[[Attempt], Awaitable[ToolReply]]


async def answer_or_wait(
    ctx: RequestContext, seconds: int | None, try_answer: _TryAnswer
) -> ToolReply:
    """Answer a call when there is work, or when `seconds` have passed without work.

    The call does not wait if `seconds` is not set, or if too many calls wait already.

    Raises:
        Unauthenticated: the caller's credential became invalid while the call waited.
    """
    waiting, bus, org_id = ctx.services.waiting, ctx.services.bus, ctx.caller.org_id
    if not seconds or bus.is_closed or not waiting.has_capacity(org_id):
        return await try_answer(Attempt(is_last=True))
    deadline = waiting.time() + seconds - ctx.caller.hooks.delay_seconds
    with waiting.counted(org_id):
        position, attempt = bus.position(org_id), Attempt(is_last=False)
        reply = await try_answer(attempt)
        nothing = attempt.nothing
        if nothing is None or isinstance(reply, StoredAnswer) or bus.is_closed:
            return reply
        ctx.caller.hooks.release_slot()
        with waiting.queued(bus, org_id, nothing.subject, deadline) as (queue, waiter):
            queue.note_nothing(nothing, reply)
            # Check whether something has changed since this call found no work. If other calls are
            # in the queue, this is unnecessary, because the first of them reacts to every change.
            if len(queue) == 1 and _has_changed(bus, org_id, nothing.subject, position):
                queue.wake()
            # The queue keeps one reply for all its calls, so this call need not keep its own reply.
            del attempt, reply, nothing
            return await _wait(ctx, queue, waiter, try_answer)


async def _wait(
    ctx: RequestContext, queue: WaitQueue, waiter: Waiter, try_answer: _TryAnswer
) -> ToolReply:
    """Return the answer to a queued call.

    When the waiting time is over, the call gets the last reply of its queue. That reply is not
    stored, so that a repeated call waits again.
    """
    while True:
        await waiter.woken.wait()
        waiter.woken.clear()
        if queue.is_closed:
            return {**queue.reply, "retryAfterSeconds": RETRY_AFTER_WORK_SECONDS}
        if waiter.is_expired:
            return {**queue.reply, "retryAfterSeconds": _RETRY_AFTER_WAIT_SECONDS}
        if not await ctx.caller.hooks.still_authorized():
            raise Unauthenticated
        queue.start_trying()
        attempt = Attempt(is_last=False)
        reply = await try_answer(attempt)
        if attempt.nothing is None or isinstance(reply, StoredAnswer):
            return reply
        queue.note_nothing(attempt.nothing, reply)
        queue.stop_trying()


def _has_changed(bus: Bus, org_id: UUID, subject: Subject, since: str) -> bool:
    events = bus.events_since(org_id, since)
    return events is None or any(
        event.kind == subject.kind and subject.id in {None, event.id} for event in events
    )
