"""`waybook user`: the users of an org, from outside."""

import click

from waybook.cli.lazy import LazyGroup

COMMANDS = {
    "erase": ("waybook.cli.erase:user", "Erase a user: their name gives way to a pseudonym."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """The users of an org: erase."""
