"""`waybook org`, `user` and `token`: groups whose commands are imported when they are used."""

import click

from waybook.cli.lazy import LazyGroup

ORG_COMMANDS = {
    "add": (
        "waybook.cli.commands.orgs:add_command",
        "Create an org (an isolated tenant).",
    ),
    "list": ("waybook.cli.commands.orgs:list_command", "List orgs."),
    "show": (
        "waybook.cli.commands.orgs:show_command",
        "Show an org: name, review policy, number of users.",
    ),
    "set": (
        "waybook.cli.commands.orgs:set_command",
        "Change an org's name or review policy.",
    ),
    "erase": ("waybook.cli.commands.maintenance:org", "Erase an org and all its data."),
}


@click.group(cls=LazyGroup, table=ORG_COMMANDS)
def org_group() -> None:
    """Orgs: add, list, show, set, erase."""


USER_COMMANDS = {
    "add": (
        "waybook.cli.commands.users:add_command",
        "Add a user (person or service) to an org.",
    ),
    "list": ("waybook.cli.commands.users:list_command", "List the users of an org."),
    "scopes": (
        "waybook.cli.commands.users:scopes_command",
        "Set a user's scopes.",
    ),
    "disable": (
        "waybook.cli.commands.users:disable_command",
        "Disable a user immediately.",
    ),
    "enable": (
        "waybook.cli.commands.users:enable_command",
        "Enable a user; existing tokens work again.",
    ),
    "erase": (
        "waybook.cli.commands.maintenance:user",
        "Erase a user (replace the name with a pseudonym).",
    ),
}


@click.group(cls=LazyGroup, table=USER_COMMANDS)
def user_group() -> None:
    """The users of an org: add, list, scopes, disable, enable, erase."""


TOKEN_COMMANDS = {
    "add": (
        "waybook.cli.commands.tokens:add_command",
        "Create a token for a user (shown once).",
    ),
    "list": (
        "waybook.cli.commands.tokens:list_command",
        "List the tokens of an org (without secrets).",
    ),
    "revoke": (
        "waybook.cli.commands.tokens:revoke_command",
        "Revoke a token permanently.",
    ),
}


@click.group(cls=LazyGroup, table=TOKEN_COMMANDS)
def token_group() -> None:
    """API tokens: add, list, revoke."""
