"""How a face enters: the doorway, opened when it is first needed, and who is calling."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol
from uuid import UUID

from starlette.requests import Request

from waybook.errors import RateLimited, WaybookError
from waybook.store.bus import Bus
from waybook.usecases.exchange import Answer, Caller, Readable, ReadableOutput
from waybook.usecases.skills import Skill

#: Where a request remembers that it was counted; or, if that is false, that it was one too many.
COUNTED: Final = "counted"


class Door(Protocol):
    """What a face needs of the doorway."""

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills there are, the same for everybody."""

    @property
    def bus(self) -> Bus:
        """Where changes are made known."""

    def count(self, caller: Caller, /) -> float:
        """Count a call of this org, or tell how many seconds it has to wait."""

    def turned_away(self, caller: Caller, what: str = ..., /) -> RateLimited:
        """What is told to whoever calls too often."""

    async def is_ready(self) -> bool:
        """Whether the database answers."""

    async def enter(self, caller: Caller, tool: str, arguments: Mapping[str, object], /) -> Answer:
        """Carry out one call."""

    async def document(self, caller: Caller, resource_id: str, /) -> Readable:
        """Read a rendered document."""

    async def output(self, caller: Caller, output_id: str, /) -> ReadableOutput:
        """Read a deliverable."""

    async def outputs(self, caller: Caller, plan_id: str, /) -> Sequence[Mapping[str, object]]:
        """List the deliverables of a plan."""


async def always(_: Request | None) -> bool:
    """Where nobody is asked who they are, nobody is asked again."""
    return True


@dataclass(frozen=True, slots=True)
class Entrance:
    """The doorway as a face sees it.

    `doorway` is awaited by every call, and only by calls: lists of tools are answered before the
    database is up. `caller` says who is asking, from the HTTP request, or from nothing over stdio;
    `still` whether they still may, for answers that go on for long.
    """

    doorway: Callable[[], Awaitable[Door]]
    caller: Callable[[Request | None], Awaitable[Caller]]
    still: Callable[[Request | None], Awaitable[bool]] = always

    async def enter(
        self, request: Request | None, tool: str, arguments: Mapping[str, object]
    ) -> Answer:
        """Call a tool of the doorway's table; a door that stays shut is an answer too."""
        try:
            doorway, caller = await self._entering(request, tool)
        except WaybookError as error:
            return Answer(error.as_json(), is_error=True)
        return await doorway.enter(caller, tool, arguments)

    async def document(self, request: Request | None, resource_id: str) -> Readable:
        """A rendered document, as whoever is asking may read it.

        Raises:
            NotFound: it is not there, or not theirs.
        """
        doorway, caller = await self._entering(request)
        return await doorway.document(caller, resource_id)

    async def output(self, request: Request | None, output_id: str) -> ReadableOutput:
        """A deliverable of a plan, as whoever is asking may read it.

        Raises:
            NotFound: it is not there, or not theirs.
        """
        doorway, caller = await self._entering(request)
        return await doorway.output(caller, output_id)

    async def outputs(
        self, request: Request | None, plan_id: str
    ) -> Sequence[Mapping[str, object]]:
        """The deliverables of a plan, all versions, newest first.

        Raises:
            NotFound: the plan is not there, or not theirs.
        """
        doorway, caller = await self._entering(request)
        return await doorway.outputs(caller, plan_id)

    async def news(self, request: Request | None) -> tuple[Bus, UUID]:
        """Where changes are made known, and whose whoever is asking may hear of."""
        doorway = await self.doorway()
        return doorway.bus, (await self.caller(request)).org_id

    async def answers(self) -> bool:
        """Whether somebody is there, down to the database."""
        return await (await self.doorway()).is_ready()

    async def _entering(self, request: Request | None, what: str = "") -> tuple[Door, Caller]:
        """The doorway, and whoever enters; if they were counted on the way, they are not again.

        Raises:
            RateLimited: they were one too many.
        """
        doorway, caller = await self.doorway(), await self.caller(request)
        counted = None if request is None else getattr(request.state, COUNTED, None)
        if counted is None:
            return doorway, caller
        if not counted:
            raise doorway.turned_away(caller, what)
        return doorway, replace(caller, counted=True)
