"""Access of commands for people to a server over HTTP, or to the local database."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, Final, Protocol

import click

from waybook.cli.lazy import load
from waybook.cli.options import Option, combine, database_options
from waybook.cli.remote import find_remote
from waybook.cli.terminal.rows import NO_FIELDS

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


def server_command(*options: Option) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command from a function that gets a server and the values of the options."""

    def decorate(act: Callable[..., None]) -> click.Command:
        @wraps(act)
        def command(**values: Any) -> None:  # noqa: ANN401 - from click
            flags = {name: values.pop(name) for name in _FLAGS}
            with open_server(flags) as server:
                act(server, **values)

        return click.command()(combine(*options, database_options)(command))

    return decorate


def open_page(url: str) -> None:
    click.echo(url)
    click.launch(url)
