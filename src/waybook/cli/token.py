"""`waybook token`: API tokens, from outside."""

import click

from waybook.cli.lazy import LazyGroup

COMMANDS = {
    "add": ("waybook.cli.tokens:add_command", "Give a user a token; it is shown this once."),
    "list": ("waybook.cli.tokens:list_command", "The tokens of an org; never their secrets."),
    "revoke": ("waybook.cli.tokens:revoke_command", "Let a token count no more, for good."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """API tokens: add, list, revoke."""
