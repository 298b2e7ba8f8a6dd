"""Connects HTTP and stdio with the tool dispatcher, and limits the open streams of changes."""

from asyncio import get_running_loop
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from starlette.requests import Request

from waybook.app.request.caller import (
    Answer,
    Caller,
    ReadableDocument,
    ReadableOutput,
    ReadableReview,
    WaitHooks,
    keep_slot,
    stay_authorized,
)
from waybook.app.skills.skill import Skill
from waybook.errors import RateLimited, Unavailable, WaybookError
from waybook.store.driver.bus import Bus

#: Key in the request's state: whether the rate limiter admitted the request.
RATE_COUNTED: Final = "counted"
#: Key in the request's state: the error that prevented the check of the credential.
FAULT: Final = "fault"
#: Key in the request's state: its arrival time, by the clock of the event loop.
ARRIVED: Final = "arrived"
#: Key in the request's state: a function that lets the org's next request start.
RELEASE_SLOT: Final = "release_slot"


class DispatcherPort(Protocol):
    """Protocol of the tool dispatcher, with the methods that HTTP and stdio use."""

    @property
    def skills(self) -> tuple[Skill, ...]: ...

    @property
    def bus(self) -> Bus: ...

    def try_acquire(self, caller: Caller, /) -> float:
        """Count a call against the org's rate limit. Return the seconds to wait, or 0."""

    def charge(self, caller: Caller, calls: int, /) -> None:
        """Count this many additional calls against the org's rate limit."""

    def rate_limited_answer(self, caller: Caller, what: str = ..., /) -> RateLimited: ...

    async def is_ready(self) -> bool: ...

    async def has_workflows(self, caller: Caller, /) -> bool: ...

    async def dispatch(
        self, caller: Caller, tool: str, arguments: Mapping[str, object], /
    ) -> Answer: ...

    async def read_document(self, caller: Caller, resource_id: str, /) -> ReadableDocument: ...

    async def read_output(self, caller: Caller, output_id: str, /) -> ReadableOutput: ...

    async def read_review(self, caller: Caller, review_id: str, /) -> ReadableReview: ...

    async def list_outputs(
        self, caller: Caller, plan_id: str, /
    ) -> Sequence[Mapping[str, object]]: ...

    async def read_view(
        self, caller: Caller, view: str, parameters: Mapping[str, str], /
    ) -> Mapping[str, object]: ...

    async def share_plan(self, caller: Caller, plan_id: str, days: object, /) -> str:
        """Create a link to a snapshot of the plan, and return its URL."""


@dataclass(frozen=True, slots=True)
class ToolGateway:
    """Access to the tool dispatcher and to authentication, for HTTP and stdio.

    Tool calls wait until the dispatcher has started. Requests for the list of tools do not wait, so
    they are answered even before the database is up.
    """

    dispatcher: Callable[[], Awaitable[DispatcherPort]]
    caller: Callable[[Request | None], Awaitable[Caller]]
    still_authorized: Callable[[Request | None], Awaitable[bool]] = stay_authorized

    async def call_tool(
        self,
        request: Request | None,
        tool: str,
        arguments: Mapping[str, object],
        client: str | None = None,
    ) -> Answer:
        try:
            dispatcher, caller, counted = await self._admitted(request, tool)
        except WaybookError as error:
            return Answer(error.as_json(), is_error=True)
        state, now = request_state(request), get_running_loop().time()
        release_slot = state.get(RELEASE_SLOT, keep_slot)
        delay = now - state.get(ARRIVED, now)
        hooks = WaitHooks(release_slot, partial(self.still_authorized, request), delay)
        caller = replace(caller, rate_counted=counted, client=client, hooks=hooks)
        return await dispatcher.dispatch(caller, tool, arguments)

    async def enter(self, request: Request | None) -> tuple[DispatcherPort, Caller]:
        """Return the dispatcher and the caller, for a read that is not a tool call.

        Raises:
            RateLimited: the org is over its rate limit.
        """
        dispatcher, caller, counted = await self._admitted(request, "")
        return dispatcher, replace(caller, rate_counted=counted)

    async def has_workflows(self, request: Request | None) -> bool:
        dispatcher = await self.dispatcher()
        return await dispatcher.has_workflows(await self.caller(request))

    async def event_bus(self, request: Request | None) -> tuple[Bus, UUID]:
        dispatcher = await self.dispatcher()
        return dispatcher.bus, (await self.caller(request)).org_id

    async def is_ready(self) -> bool:
        return await (await self.dispatcher()).is_ready()

    async def _admitted(
        self, request: Request | None, what: str
    ) -> tuple[DispatcherPort, Caller, bool]:
        dispatcher, caller = await self.dispatcher(), await self.caller(request)
        counted = request_state(request).get(RATE_COUNTED)
        if counted is None:
            return dispatcher, caller, caller.rate_counted
        if not counted:
            raise dispatcher.rate_limited_answer(caller, what)
        return dispatcher, caller, True


def request_state(request: Request | None) -> Mapping[str, Any]:
    return request.scope.get("state", {}) if request is not None else {}


_Key = TypeVar("_Key")


@contextmanager
def counting(counts: Counter[_Key], key: _Key) -> Iterator[None]:
    """Add 1 to the count of a key within the block. A key is removed when its count is 0 again."""
    counts[key] += 1
    try:
        yield
    finally:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]


#: Seconds that a client should wait after it was refused another change stream.
_RETRY_SECONDS: Final = 30


class StreamLimiter:
    def __init__(self, most: int, most_of_org: int) -> None:
        self._most, self._most_of_org = most, most_of_org
        self._open: Counter[UUID] = Counter()

    def limit_error(self, org_id: UUID) -> WaybookError | None:
        if self._open[org_id] >= self._most_of_org:
            return RateLimited(
                f"your org already has {self._most_of_org} streams of changes open, which is the "
                "limit; close one, or try again later",
                retryAfter=_RETRY_SECONDS,
            )
        if self._open.total() >= self._most:
            return Unavailable(
                "too many streams of changes are open; try again later", retryAfter=_RETRY_SECONDS
            )
        return None

    def acquire(self, org_id: UUID) -> AbstractContextManager[None]:
        return counting(self._open, org_id)
