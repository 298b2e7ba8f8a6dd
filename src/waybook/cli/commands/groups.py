"""`waybook org`, `waybook user` and `waybook token`: command groups with lazy subcommands."""

import click

from waybook.cli.lazy import LazyGroup

ORG_COMMANDS = {
    "add": (
        "waybook.cli.commands.orgs:add_command",
        "Make an org: a tenant that sees nothing of others.",
    ),
    "list": ("waybook.cli.commands.orgs:list_command", "The orgs there are."),
    "show": (
        "waybook.cli.commands.orgs:show_command",
        "One org: its name, its reviews, its members.",
    ),
    "set": (
        "waybook.cli.commands.orgs:set_command",
        "Change its name, or who decides its reviews.",
    ),
    "erase": ("waybook.cli.commands.maintenance:org", "Erase an org and all that is its own."),
}


@click.group(cls=LazyGroup, table=ORG_COMMANDS)
def org_group() -> None:
    """Orgs: add, list, show, set, erase."""


USER_COMMANDS = {
    "add": (
        "waybook.cli.commands.users:add_command",
        "Let somebody into an org, a person or a service.",
    ),
    "list": ("waybook.cli.commands.users:list_command", "The users of an org."),
    "scopes": (
        "waybook.cli.commands.users:scopes_command",
        "Change what a user may do, from now on.",
    ),
    "disable": (
        "waybook.cli.commands.users:disable_command",
        "Let a user in no more, from now on.",
    ),
    "enable": ("waybook.cli.commands.users:enable_command", "Let a user in again."),
    "erase": (
        "waybook.cli.commands.maintenance:user",
        "Erase a user: their name gives way to a pseudonym.",
    ),
}


@click.group(cls=LazyGroup, table=USER_COMMANDS)
def user_group() -> None:
    """The users of an org: add, list, scopes, disable, enable, erase."""


TOKEN_COMMANDS = {
    "add": (
        "waybook.cli.commands.tokens:add_command",
        "Give a user a token; it is shown this once.",
    ),
    "list": (
        "waybook.cli.commands.tokens:list_command",
        "The tokens of an org; never their secrets.",
    ),
    "revoke": (
        "waybook.cli.commands.tokens:revoke_command",
        "Let a token count no more, for good.",
    ),
}


@click.group(cls=LazyGroup, table=TOKEN_COMMANDS)
def token_group() -> None:
    """API tokens: add, list, revoke."""
