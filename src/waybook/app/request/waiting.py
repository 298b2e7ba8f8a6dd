"""Calls that wait until work is free, until a person has decided, or until their time is over.

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
from waybook.plan.draft import MAX_WAIT_SECONDS
from waybook.store.calls import StoredAnswer
from waybook.store.driver.bus import Bus

#: Seconds after which a client should repeat a call that found nothing: without waiting, if agents
#: work or if a person decides; and after the call has waited.
RETRY_AFTER_WORK_SECONDS: Final = 5
RETRY_AFTER_PERSON_SECONDS: Final = 30
RETRY_AFTER_WAIT_SECONDS: Final = 1

WaitSeconds: TypeAlias = Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)]


class Attempt:
    """One attempt to answer a call that may wait."""

    def __init__(self, *, is_last: bool) -> None:
        self._is_last = is_last
        #: Reason why the attempt found no work; None if its reply is the answer to the call.
        self.nothing: Nothing | None = None

    @property
    def is_answer(self) -> bool:
        """Return whether the reply of this attempt answers the call, so that it may be stored."""
        return self._is_last or self.nothing is None

    def retry_advice(self) -> Body:
        """Return the field `retryAfterSeconds` of a reply without work."""
        if self.nothing is None:
            return {}
        _, seconds, free_in = self.nothing
        if free_in is not None:
            seconds = max(1, min(seconds, math.ceil(free_in)))
        return {"retryAfterSeconds": seconds}


#: Function that tries to answer a call; it sets `Attempt.nothing` if it finds no work.
TryAnswer: TypeAlias = Callable[[Attempt], Awaitable[ToolReply]]


async def answer_or_wait(
    ctx: RequestContext, seconds: int | None, try_answer: TryAnswer
) -> ToolReply:
    """Return the answer to a call as soon as there is work, or after `seconds` without work.

    A call that does not wait, or may not wait because too many calls do, is answered at once.

    Raises:
        Unauthenticated: the caller's credential became invalid while the call waited.
    """
    waiting, bus, org_id = ctx.services.waiting, ctx.services.bus, ctx.caller.org_id
    if not seconds or bus.is_closed or not waiting.has_capacity(org_id):
        return await try_answer(Attempt(is_last=True))
    deadline = waiting.time() + seconds
    with waiting.counted(org_id):
        position, attempt = bus.position(org_id), Attempt(is_last=False)
        reply = await try_answer(attempt)
        nothing = attempt.nothing
        if nothing is None or isinstance(reply, StoredAnswer) or bus.is_closed:
            return reply
        ctx.caller.hooks.release_slot()
        with waiting.queued(bus, org_id, nothing.subject, deadline) as (queue, waiter):
            queue.note_nothing(nothing, reply)
            # Earlier calls in the queue have seen every change so far, or are about to.
            if len(queue) == 1 and _has_changed(bus, org_id, nothing.subject, position):
                queue.wake()
            # The queue keeps one reply for all its calls; a copy in each would take more memory.
            del attempt, reply, nothing
            return await _wait(ctx, queue, waiter, try_answer)


async def _wait(
    ctx: RequestContext, queue: WaitQueue, waiter: Waiter, try_answer: TryAnswer
) -> ToolReply:
    """Return the answer to a queued call.

    A call whose time is over gets the last reply of its queue, which is current, because every
    change leads to an attempt. Nothing is stored under its idempotency key, because it changed
    nothing: if it is repeated, it waits again.
    """
    while True:
        await waiter.woken.wait()
        waiter.woken.clear()
        if queue.is_closed:
            return {**queue.reply, "retryAfterSeconds": RETRY_AFTER_WORK_SECONDS}
        if waiter.is_expired:
            return {**queue.reply, "retryAfterSeconds": RETRY_AFTER_WAIT_SECONDS}
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
    """Return whether the plan or run may have changed since a position of the event bus."""
    events = bus.events_since(org_id, since)
    return events is None or any(
        event.kind == subject.kind and subject.id in {None, event.id} for event in events
    )
