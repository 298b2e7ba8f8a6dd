"""`waybook user`: the users of an org, from outside."""

import click

from waybook.cli.lazy import LazyGroup

COMMANDS = {
    "add": ("waybook.cli.users:add_command", "Let somebody into an org, a person or a service."),
    "list": ("waybook.cli.users:list_command", "The users of an org."),
    "scopes": ("waybook.cli.users:scopes_command", "Change what a user may do, from now on."),
    "disable": ("waybook.cli.users:disable_command", "Let a user in no more, from now on."),
    "enable": ("waybook.cli.users:enable_command", "Let a user in again."),
    "erase": ("waybook.cli.erase:user", "Erase a user: their name gives way to a pseudonym."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """The users of an org: add, list, scopes, disable, enable, erase."""
