"""The way into the house for a command: started if need be, with a sign of life while waiting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from waybook.cli.logs import log_quietly
from waybook.cli.options import settings_from
from waybook.cli.terminal import Terminal
from waybook.doorway import Channel
from waybook.errors import NotFound
from waybook.settings import Settings
from waybook.usecases.call import Call
from waybook.usecases.find_orgs import meant_org
from waybook.wiring import Running, running


@dataclass(frozen=True, slots=True)
class Inside:
    """A running house, seen from the command line."""

    house: Running

    @property
    def call(self) -> Call:
        """A call to use cases that are not tools."""
        return Call(house=self.house.doorway.house, caller=self.house.caller(Channel.CLI))

    async def at(self, slug: str | None) -> Call:
        """The same in the org of this slug: whoever runs the server may go to each.

        Raises:
            NotFound: there is none, or it is not that of our token.
        """
        caller = self.house.caller(Channel.CLI)
        if slug is None:
            return self.call
        org_id = await meant_org(self.house.doorway.house, slug)
        if self.house.bearer is not None and caller.org_id != org_id:
            raise NotFound(f"the token is not of the org {slug}")
        return Call(house=self.house.doorway.house, caller=replace(caller, org_id=org_id))


def the_console() -> Console:
    """Where people read."""
    return Terminal()


def quiet_settings(flags: dict[str, object]) -> Settings:
    """The settings in force, with logs kept away from the person."""
    found = settings_from(flags)
    log_quietly(found)
    return found.settings


@asynccontextmanager
async def inside(settings: Settings) -> AsyncIterator[Inside]:
    """Open the house; say so on a terminal if it takes a while."""
    waiting = Console(stderr=True).status("starting the database …", spinner="dots")
    waiting.start()
    try:
        async with running(settings, sweeping=False) as house:
            waiting.stop()
            yield Inside(house)
    finally:
        waiting.stop()
