"""`waybook org`: orgs, from outside."""

import click

from waybook.cli.lazy import LazyGroup

COMMANDS = {
    "erase": ("waybook.cli.erase:org", "Erase an org and all that is its own."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """Orgs: erase."""
