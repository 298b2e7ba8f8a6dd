"""Access to the application for commands, with a spinner while the application starts."""

import asyncio
import shlex
import sys
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import click
from rich.console import Console, RenderableType
from rich.text import Text

from waybook.app.accounts.authentication import require_org
from waybook.app.request.caller import Answer, Caller
from waybook.app.request.request_context import RequestContext
from waybook.application import BasicApplication, open_application
from waybook.cli.lazy import load
from waybook.cli.logs import configure_command_logging
from waybook.cli.options import (
    Option,
    combine,
    database_options,
    json_option,
    org_option,
)
from waybook.cli.output import print_json
from waybook.cli.remote import Remote, find_remote
from waybook.cli.terminal.console import SafeConsole
from waybook.cli.terminal.errors import HintedError, ToolError
from waybook.core.decision_context import Channel
from waybook.errors import NotFound
from waybook.page_address import current_base_url, find_page_server
from waybook.settings import Settings
from waybook.settings_reading import settings_from

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

    async def result(
        self, tool: str, arguments: Mapping[str, object], caller: Caller | None = None
    ) -> dict[str, Any]:
        """Call a tool and return the body of its answer.

        Raises:
            ToolError: the tool returned an error.
        """
        answer = await self.call_tool(tool, arguments, caller)
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


def remote_of(settings: Settings) -> Remote | None:
    """Return the server of the login, unless a flag selected another database."""
    usual = settings_from({}).settings
    is_usual = (settings.data_dir, settings.database_url) == (usual.data_dir, usual.database_url)
    return find_remote(settings.token) if is_usual else None


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


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The local database, for commands that can also use a server over HTTP."""

    here: AppSession
    runner: asyncio.Runner

    @property
    def url(self) -> str:
        return current_base_url(self.here.app.settings)

    @property
    def hint(self) -> str | None:
        return start_hint(self.here.app.settings)

    def read(self, view: str, **parameters: str | int | None) -> dict[str, Any]:
        named = {name: str(value) for name, value in parameters.items() if value is not None}
        query = load(f"{_VIEWS}:read_query")(named)
        return self.runner.run(load(f"{_VIEWS}:read_view")(self.here.call, view, query))

    def call(self, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        return self.runner.run(self.here.result(tool, arguments))

    def share(self, plan_id: str, days: int) -> str:
        share = load("waybook.app.operations.sharing:share_plan")
        return str(self.runner.run(share(self.here.call, plan_id, days, self.url)))

    def drawing(self, noun: str, text: str | None) -> object:
        read_drawing = load("waybook.app.queries.diagrams:read_drawing")
        return self.runner.run(read_drawing(self.here.call, noun, text))


_VIEWS = "waybook.app.queries.work_views"


@contextmanager
def open_local_server(flags: dict[str, object]) -> Iterator[LocalServer]:
    with asyncio.Runner() as runner, ExitStack() as ending:
        opened = AsyncExitStack()
        ending.callback(lambda: runner.run(opened.aclose()))
        here = runner.run(opened.enter_async_context(open_app(load_settings(flags))))
        yield LocalServer(here, runner)


class Outcome(NamedTuple):
    """Result of a command. `value` is printed with `--json`, otherwise `lines` are printed."""

    value: object
    lines: Iterable[RenderableType] = ()
    exit_code: int = 0


def settings_command(
    *options: Option, tight: bool = False
) -> Callable[[Callable[..., Outcome]], click.Command]:
    """Make a command from a function that gets the settings and the values of the options."""

    def decorate(act: Callable[..., Outcome]) -> click.Command:
        @wraps(act)
        def command(*, as_json: bool, **values: Any) -> None:  # noqa: ANN401 - from click
            names = ("database_url", "data_dir", "token")
            settings = load_settings({name: values.pop(name) for name in names})
            print_outcome(act(settings, **values), as_json=as_json, tight=tight)

        return click.command()(combine(*options, json_option, database_options)(command))

    return decorate


def app_command(
    *options: Option, org: bool = False, people: bool = False, tight: bool = False
) -> Callable[[Callable[..., Awaitable[Outcome]]], click.Command]:
    """Return a decorator that makes a command from an async function.

    The function gets the running application and the values of the options. With `org`, the command
    has the option `--org`, and the function gets the request context of this org instead of the
    application. With `people`, the command is for people, so it is refused after a login.
    """

    def decorate(act: Callable[..., Awaitable[Outcome]]) -> click.Command:
        @settings_command(*options, *([org_option] if org else []), tight=tight)
        @wraps(act)
        def command(settings: Settings, **values: Any) -> Outcome:  # noqa: ANN401 - from click
            slug = values.pop("org") if org else None

            async def run(here: AppSession) -> Outcome:
                return await act(await here.for_org(slug) if org else here, **values)

            return run_in_app(settings, run, people=people)

        return command

    return decorate


def print_outcome(outcome: Outcome, *, as_json: bool, tight: bool = False) -> None:
    if as_json:
        print_json(outcome.value, tight=tight)
    else:
        console = get_console()
        for line in outcome.lines:
            # The console of rich would wrap a long text.
            click.echo(line) if isinstance(line, str) else console.print(line)
    if outcome.exit_code:
        sys.exit(outcome.exit_code)


def run_in_app(
    settings: Settings, work: Callable[[AppSession], Awaitable[T]], *, people: bool = False
) -> T:
    """Do the work with a running application, and return its result.

    Work for `people` is refused after a login, because it would show other data than the server.
    """
    if people and (remote := remote_of(settings)) is not None:
        message = f"this command reads the database itself, and you are logged in to {remote.url}"
        raise HintedError(message, "add --data-dir DIR or --database-url URL, or: waybook logout")

    async def run() -> T:
        async with open_app(settings) as here:
            return await work(here)

    return asyncio.run(run())
