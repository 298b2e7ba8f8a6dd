"""Access to the application for commands, with a spinner while the application starts."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from rich.console import Console
from rich.text import Text

from waybook.app.accounts.lookup import require_org
from waybook.app.request.caller import Answer, Caller
from waybook.app.request.request_context import RequestContext
from waybook.application import BasicApplication, open_application
from waybook.cli.lazy import load
from waybook.cli.logs import configure_command_logging
from waybook.cli.options import settings_from
from waybook.cli.terminal.console import SafeConsole
from waybook.cli.terminal.errors import ToolError
from waybook.core.decision_context import Channel
from waybook.errors import NotFound
from waybook.page_address import find_page_server
from waybook.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AppSession:
    app: BasicApplication

    @property
    def call(self) -> RequestContext:
        """Return a request context of the caller, for operations that no tool provides."""
        return RequestContext(services=self.app.services, caller=self.app.caller(Channel.CLI))

    async def call_tool(
        self, tool: str, arguments: Mapping[str, object], caller: Caller | None = None
    ) -> Answer:
        """Call a tool. The dispatcher is imported only now, because most commands call no tool."""
        dispatcher = load("waybook.app.dispatcher:Dispatcher")(self.app.services, self.app.calls)
        answer: Answer = await dispatcher.dispatch(caller or self.call.caller, tool, arguments)
        return answer

    async def result(self, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Call a tool and return the body of its answer.

        Raises:
            ToolError: the tool returned an error.
        """
        answer = await self.call_tool(tool, arguments)
        if answer.is_error:
            raise ToolError(cast("dict[str, Any]", answer.body["error"]))
        return answer.body

    async def for_org(self, slug: str | None) -> RequestContext:
        """Return a request context for the org with this slug.

        Without a token, the caller is the operator, who may access every org.

        Raises:
            NotFound: no org has this slug, or the token belongs to another org.
        """
        caller = self.app.caller(Channel.CLI)
        if slug is None:
            return self.call
        org_id = await require_org(self.app.services, slug)
        if self.app.bearer is not None and caller.org_id != org_id:
            raise NotFound(f"the token does not belong to the org {slug}")
        return RequestContext(services=self.app.services, caller=replace(caller, org_id=org_id))


def get_console() -> Console:
    return SafeConsole()


def load_settings(flags: dict[str, object]) -> Settings:
    loaded = settings_from(flags)
    configure_command_logging(loaded)
    return loaded.settings


def start_hint(settings: Settings) -> str | None:
    """Return a hint on starting the dashboard, or None if it may already be running."""
    if settings.database_url or settings.public_url or find_page_server(settings):
        return None
    is_usual = settings.data_dir == settings_from({}).settings.data_dir
    where = "" if is_usual else f" --data-dir {shlex.quote(str(settings.data_dir))}"
    return f"No process serves this page now; start one: waybook serve{where}"


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[AppSession]:
    """Run the application until the block ends, with a spinner on stderr while it starts."""
    console = Console(stderr=True)
    # Use `Text`: a plain string would be searched for emoji names, whose table is slow to import.
    waiting = console.status(Text("starting the database …"), spinner="line")
    if console.is_terminal:
        waiting.start()
    try:
        async with open_application(settings) as app:
            waiting.stop()
            yield AppSession(app)
    finally:
        waiting.stop()


def run_in_app(settings: Settings, work: Callable[[AppSession], Awaitable[T]]) -> T:
    """Do the work with a running application, and return its result."""

    async def run() -> T:
        async with open_app(settings) as here:
            return await work(here)

    return asyncio.run(run())
