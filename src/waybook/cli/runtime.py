"""The way into the house for a command: started if need be, with a sign of life while waiting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from waybook.app.accounts.members import require_org
from waybook.app.request.request_context import RequestContext
from waybook.bootstrap import Application, start_application
from waybook.cli.logs import configure_command_logging
from waybook.cli.options import settings_from
from waybook.cli.terminal.console import SafeConsole
from waybook.core.decision_context import Channel
from waybook.errors import NotFound
from waybook.settings import Settings


@dataclass(frozen=True, slots=True)
class AppSession:
    """A running house, seen from the command line."""

    app: Application

    @property
    def call(self) -> RequestContext:
        """A call to use cases that are not tools."""
        return RequestContext(services=self.app.doorway.house, caller=self.app.caller(Channel.CLI))

    async def for_org(self, slug: str | None) -> RequestContext:
        """The same in the org of this slug: whoever runs the server may go to each.

        Raises:
            NotFound: there is none, or it is not that of our token.
        """
        caller = self.app.caller(Channel.CLI)
        if slug is None:
            return self.call
        org_id = await require_org(self.app.doorway.house, slug)
        if self.app.bearer is not None and caller.org_id != org_id:
            raise NotFound(f"the token is not of the org {slug}")
        return RequestContext(
            services=self.app.doorway.house, caller=replace(caller, org_id=org_id)
        )


def get_console() -> Console:
    """Where people read."""
    return SafeConsole()


def load_settings(flags: dict[str, object]) -> Settings:
    """The settings in force, with logs kept away from the person."""
    found = settings_from(flags)
    configure_command_logging(found)
    return found.settings


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[AppSession]:
    """Open the house; say so on a terminal if it takes a while."""
    waiting = Console(stderr=True).status("starting the database …", spinner="dots")
    waiting.start()
    try:
        async with start_application(settings, sweeping=False) as services:
            waiting.stop()
            yield AppSession(services)
    finally:
        waiting.stop()
