"""How a face enters: the doorway, opened when it is first needed, and who is calling."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request

from waybook.doorway import Answer, Caller, Doorway
from waybook.errors import NotFound, WaybookError
from waybook.usecases.call import Call
from waybook.usecases.read_documents import Readable, read_document

ReadDocument = Callable[[Caller, str], Awaitable[Readable]]


class Door(Protocol):
    """What a face needs of the doorway."""

    async def enter(self, caller: Caller, tool: str, arguments: Mapping[str, object], /) -> Answer:
        """Carry out one call."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """The doorway as a face sees it.

    `doorway` is awaited by every call, and only by calls: lists of tools are answered before the
    database is up. `caller` says who is asking, from the HTTP request, or from nothing over stdio.
    """

    doorway: Callable[[], Awaitable[Door]]
    caller: Callable[[Request | None], Awaitable[Caller]]
    #: Reads a rendered document, which no tool does; without it there is none.
    documents: ReadDocument | None = None

    async def enter(
        self, request: Request | None, tool: str, arguments: Mapping[str, object]
    ) -> Answer:
        """Call a tool of the doorway's table; a door that stays shut is an answer too."""
        try:
            doorway = await self.doorway()
            caller = await self.caller(request)
        except WaybookError as error:
            return Answer(error.as_json(), is_error=True)
        return await doorway.enter(caller, tool, arguments)

    async def document(self, request: Request | None, resource_id: str) -> Readable:
        """A rendered document, as whoever is asking may read it.

        Raises:
            NotFound: it is not there, or not theirs.
        """
        if self.documents is None:
            raise NotFound("there is no document with this id here")
        return await self.documents(await self.caller(request), resource_id)

    async def answers(self) -> bool:
        """Whether somebody is there, down to the database."""
        return not (await self.enter(None, "ping", {})).is_error


def documents_behind(doorway: Callable[[], Awaitable[Doorway]]) -> ReadDocument:
    """What reads the documents in the house behind a doorway."""

    async def read(caller: Caller, resource_id: str) -> Readable:
        house = (await doorway()).house
        return await read_document(Call(house=house, caller=caller), resource_id)

    return read
