"""Gateway from HTTP or stdio to the tool dispatcher, which starts at the first call."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol
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
)
from waybook.app.skills.skill import Skill
from waybook.errors import RateLimited, WaybookError
from waybook.store.driver.bus import Bus

#: Name of the request state attribute that is True if the rate limiter admitted the request, and
#: False if it refused the request.
RATE_COUNTED: Final = "counted"
#: Name of the request state attribute with the function that releases the request's slot in the
#: concurrency limiter.
RELEASE_SLOT: Final = "release_slot"


class DispatcherPort(Protocol):
    """Interface of the tool dispatcher for transports such as HTTP and stdio."""

    @property
    def skills(self) -> tuple[Skill, ...]:
        """Return the loaded skills, which are the same for every org."""

    @property
    def bus(self) -> Bus:
        """Return the event bus that publishes committed changes."""

    def try_acquire(self, caller: Caller, /) -> float:
        """Count a call against the org's rate limit; return seconds to wait, 0 if allowed."""

    def rate_limited_answer(self, caller: Caller, what: str = ..., /) -> RateLimited:
        """Return the error for a caller that exceeded its rate limit."""

    async def is_ready(self) -> bool:
        """Return whether the database responds."""

    async def dispatch(
        self, caller: Caller, tool: str, arguments: Mapping[str, object], /
    ) -> Answer:
        """Execute one tool call."""

    async def read_document(self, caller: Caller, resource_id: str, /) -> ReadableDocument:
        """Return a rendered document."""

    async def read_output(self, caller: Caller, output_id: str, /) -> ReadableOutput:
        """Return an output of a plan."""

    async def read_review(self, caller: Caller, review_id: str, /) -> ReadableReview:
        """Return a review with its outcome."""

    async def list_outputs(self, caller: Caller, plan_id: str, /) -> Sequence[Mapping[str, object]]:
        """Return the outputs of a plan."""


async def always_authorized(_: Request | None) -> bool:
    """Return True, because without authentication there is no credential to check."""
    return True


@dataclass(frozen=True, slots=True)
class ToolGateway:
    """Access to the tool dispatcher and to authentication, for HTTP and stdio.

    Only tool calls wait for `dispatcher`, so that tool lists are answered before the database is
    up. The function `caller` identifies the caller from the HTTP request, or from None over stdio.
    The function `still_authorized` checks the credential again during long-lived streams.
    """

    dispatcher: Callable[[], Awaitable[DispatcherPort]]
    caller: Callable[[Request | None], Awaitable[Caller]]
    still_authorized: Callable[[Request | None], Awaitable[bool]] = always_authorized

    async def call_tool(
        self,
        request: Request | None,
        tool: str,
        arguments: Mapping[str, object],
        client: str | None = None,
    ) -> Answer:
        """Call a tool for a client; if the call cannot be dispatched, return an error answer."""
        try:
            dispatcher, caller, counted = await self._admitted(request, tool)
        except WaybookError as error:
            return Answer(error.as_json(), is_error=True)
        release_slot = request_state(request).get(RELEASE_SLOT, keep_slot)
        hooks = WaitHooks(release_slot, partial(self.still_authorized, request))
        caller = caller.with_call(rate_counted=counted, client=client, hooks=hooks)
        return await dispatcher.dispatch(caller, tool, arguments)

    async def document(self, request: Request | None, resource_id: str) -> ReadableDocument:
        """Return a rendered document that the caller may read.

        Raises:
            NotFound: the document does not exist or belongs to another org.
        """
        dispatcher, caller = await self._entering(request)
        return await dispatcher.read_document(caller, resource_id)

    async def output(self, request: Request | None, output_id: str) -> ReadableOutput:
        """Return an output of a plan that the caller may read.

        Raises:
            NotFound: the output does not exist or belongs to another org.
        """
        dispatcher, caller = await self._entering(request)
        return await dispatcher.read_output(caller, output_id)

    async def review(self, request: Request | None, review_id: str) -> ReadableReview:
        """Return a review that the caller may read, with its outcome.

        Raises:
            NotFound: the review does not exist or belongs to another org.
        """
        dispatcher, caller = await self._entering(request)
        return await dispatcher.read_review(caller, review_id)

    async def outputs(
        self, request: Request | None, plan_id: str
    ) -> Sequence[Mapping[str, object]]:
        """Return all versions of a plan's outputs, newest first.

        Raises:
            NotFound: the plan does not exist or belongs to another org.
        """
        dispatcher, caller = await self._entering(request)
        return await dispatcher.list_outputs(caller, plan_id)

    async def event_bus(self, request: Request | None) -> tuple[Bus, UUID]:
        """Return the event bus, and the org whose changes the caller may subscribe to."""
        dispatcher = await self.dispatcher()
        return dispatcher.bus, (await self.caller(request)).org_id

    async def is_ready(self) -> bool:
        """Return whether the tool dispatcher has started and the database responds."""
        return await (await self.dispatcher()).is_ready()

    async def _entering(
        self, request: Request | None, what: str = ""
    ) -> tuple[DispatcherPort, Caller]:
        """Return the dispatcher and the caller; the caller records whether its request was counted.

        Raises:
            RateLimited: the request exceeded the org's rate limit.
        """
        dispatcher, caller, counted = await self._admitted(request, what)
        return dispatcher, replace(caller, rate_counted=counted)

    async def _admitted(
        self, request: Request | None, what: str
    ) -> tuple[DispatcherPort, Caller, bool]:
        """Return the dispatcher, the caller, and whether the request was counted.

        Raises:
            RateLimited: the request exceeded the org's rate limit.
        """
        dispatcher, caller = await self.dispatcher(), await self.caller(request)
        counted = request_state(request).get(RATE_COUNTED)
        if counted is None:
            return dispatcher, caller, caller.rate_counted
        if not counted:
            raise dispatcher.rate_limited_answer(caller, what)
        return dispatcher, caller, True


def request_state(request: Request | None) -> Mapping[str, Any]:
    """Return the attributes that the transport stored in the state of a request."""
    return request.scope.get("state", {}) if request is not None else {}
