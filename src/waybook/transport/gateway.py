"""How a face enters: the doorway, opened when it is first needed, and who is calling."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol
from uuid import UUID

from starlette.requests import Request

from waybook.app.request.caller import Answer, Caller, ReadableDocument, ReadableOutput
from waybook.app.skills.skill import Skill
from waybook.errors import RateLimited, WaybookError
from waybook.store.driver.bus import Bus

#: Where a request remembers that it was counted; or, if that is false, that it was one too many.
RATE_COUNTED: Final = "counted"


class DispatcherPort(Protocol):
    """What a face needs of the doorway."""

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills there are, the same for everybody."""

    @property
    def bus(self) -> Bus:
        """Where changes are made known."""

    def try_acquire(self, caller: Caller, /) -> float:
        """Count a call of this org, or tell how many seconds it has to wait."""

    def rate_limited_answer(self, caller: Caller, what: str = ..., /) -> RateLimited:
        """What is told to whoever calls too often."""

    async def is_ready(self) -> bool:
        """Whether the database answers."""

    async def dispatch(
        self, caller: Caller, tool: str, arguments: Mapping[str, object], /
    ) -> Answer:
        """Carry out one call."""

    async def read_document(self, caller: Caller, resource_id: str, /) -> ReadableDocument:
        """Read a rendered document."""

    async def read_output(self, caller: Caller, output_id: str, /) -> ReadableOutput:
        """Read a deliverable."""

    async def list_outputs(self, caller: Caller, plan_id: str, /) -> Sequence[Mapping[str, object]]:
        """List the deliverables of a plan."""


async def always_authorized(_: Request | None) -> bool:
    """Where nobody is asked who they are, nobody is asked again."""
    return True


@dataclass(frozen=True, slots=True)
class ToolGateway:
    """The doorway as a face sees it.

    `doorway` is awaited by every call, and only by calls: lists of tools are answered before the
    database is up. `caller` says who is asking, from the HTTP request, or from nothing over stdio;
    `still` whether they still may, for answers that go on for long.
    """

    dispatcher: Callable[[], Awaitable[DispatcherPort]]
    caller: Callable[[Request | None], Awaitable[Caller]]
    still_authorized: Callable[[Request | None], Awaitable[bool]] = always_authorized

    async def call_tool(
        self, request: Request | None, tool: str, arguments: Mapping[str, object]
    ) -> Answer:
        """Call a tool of the doorway's table; a door that stays shut is an answer too."""
        try:
            dispatcher, caller = await self._entering(request, tool)
        except WaybookError as error:
            return Answer(error.as_json(), is_error=True)
        return await dispatcher.dispatch(caller, tool, arguments)

    async def document(self, request: Request | None, resource_id: str) -> ReadableDocument:
        """A rendered document, as whoever is asking may read it.

        Raises:
            NotFound: it is not there, or not theirs.
        """
        dispatcher, caller = await self._entering(request)
        return await dispatcher.read_document(caller, resource_id)

    async def output(self, request: Request | None, output_id: str) -> ReadableOutput:
        """A deliverable of a plan, as whoever is asking may read it.

        Raises:
            NotFound: it is not there, or not theirs.
        """
        dispatcher, caller = await self._entering(request)
        return await dispatcher.read_output(caller, output_id)

    async def outputs(
        self, request: Request | None, plan_id: str
    ) -> Sequence[Mapping[str, object]]:
        """The deliverables of a plan, all versions, newest first.

        Raises:
            NotFound: the plan is not there, or not theirs.
        """
        dispatcher, caller = await self._entering(request)
        return await dispatcher.list_outputs(caller, plan_id)

    async def event_bus(self, request: Request | None) -> tuple[Bus, UUID]:
        """Where changes are made known, and whose whoever is asking may hear of."""
        dispatcher = await self.dispatcher()
        return dispatcher.bus, (await self.caller(request)).org_id

    async def is_ready(self) -> bool:
        """Whether somebody is there, down to the database."""
        return await (await self.dispatcher()).is_ready()

    async def _entering(
        self, request: Request | None, what: str = ""
    ) -> tuple[DispatcherPort, Caller]:
        """The doorway, and whoever enters; if they were counted on the way, they are not again.

        Raises:
            RateLimited: they were one too many.
        """
        dispatcher, caller = await self.dispatcher(), await self.caller(request)
        counted = None if request is None else getattr(request.state, RATE_COUNTED, None)
        if counted is None:
            return dispatcher, caller
        if not counted:
            raise dispatcher.rate_limited_answer(caller, what)
        return dispatcher, replace(caller, rate_counted=True)
