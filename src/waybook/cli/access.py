"""Access of commands for people to a server over HTTP, or to the local database."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, Final, Protocol

import click

from waybook.cli.lazy import load
from waybook.cli.options import Option, combine, database_options
from waybook.cli.remote import find_remote
from waybook.cli.terminal.errors import HintedError
from waybook.cli.terminal.rows import NO_FIELDS
from waybook.core.actions import ACTIONS, Action, Kind, action

Body = dict[str, Any]
_FLAGS: Final = ("database_url", "data_dir", "token")


class Server(Protocol):
    """A server, or the local database, which answers in the same way."""

    @property
    def url(self) -> str:
        """Return the base URL of the pages."""

    @property
    def hint(self) -> str | None:
        """Return how to start serving the pages, or None if they may be served already."""

    def read(self, view: str, **parameters: str | int | None) -> Body: ...

    def call(self, tool: str, arguments: Mapping[str, object]) -> Body: ...

    def share(self, plan_id: str, days: int) -> str: ...

    def drawing(self, noun: str, text: str | None) -> object:
        """Return the drawing of the map of a plan or run."""


fields_option = click.option(
    "--json",
    "fields",
    is_flag=False,
    flag_value=NO_FIELDS,
    metavar="FIELDS",
    help="Print these fields as JSON (a,b or all); without FIELDS, list them.",
)
web_option = click.option("--web", is_flag=True, help="Open the page in the browser.")


@contextmanager
def open_server(flags: Mapping[str, object]) -> Iterator[Server]:
    """Connect to the server of the login, or else open the database that the flags select."""
    is_local = bool(flags.get("database_url") or flags.get("data_dir"))
    remote = None if is_local else find_remote(flags.get("token"))
    if remote is not None:
        with closing(remote):
            yield remote
        return
    with load("waybook.cli.runtime:open_local_server")(dict(flags)) as local:
        yield local


def server_command(
    *options: Option, text: str = "", act_on: tuple[Kind, str] | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command from a function that gets a server and the values of the options.

    The help of a command that does an action begins with the texts of the action.
    """
    texts = [action(*act_on).help, action(*act_on).confirmation] if act_on else []

    def decorate(act: Callable[..., None]) -> click.Command:
        @wraps(act)
        def command(**values: Any) -> None:  # noqa: ANN401 - from click
            flags = {name: values.pop(name) for name in _FLAGS}
            with open_server(flags) as server:
                act(server, **values)

        shown = "\n\n".join(filter(None, [*texts, text or act.__doc__]))
        return click.command(help=shown)(combine(*options, database_options)(command))

    return decorate


def verbs(noun: Kind, module: str = "") -> dict[str, tuple[str, str]]:
    """Return the verbs of a noun that do actions, with their commands and help lines."""
    own = (act for act in ACTIONS[noun] if noun is Kind.REVIEW or act not in ACTIONS[Kind.REVIEW])
    path = f"commands.{module or noun}"
    return {act.name: (f"{path}:{act.name}_command", act.help) for act in own if act.help}


def find(server: Server, noun: Kind, text: str, name: str) -> tuple[Body, Action]:
    """Return the plan or run that a text names, and the action, which it must offer."""
    work, done = server.read(noun, q=text), action(noun, name)
    if name not in work["actions"]:
        hint = f"waybook {noun} view {work[f'{noun}Id']}"
        raise HintedError(f"the {noun} “{work['name']}” {done.refusal}", hint)
    return work, done


def open_page(url: str) -> None:
    click.echo(url)
    click.launch(url)
