"""`waybook org`: orgs, from outside."""

import click

from waybook.cli.lazy import LazyGroup

COMMANDS = {
    "add": ("waybook.cli.orgs:add_command", "Make an org: a tenant that sees nothing of others."),
    "list": ("waybook.cli.orgs:list_command", "The orgs there are."),
    "show": ("waybook.cli.orgs:show_command", "One org: its name, its reviews, its members."),
    "set": ("waybook.cli.orgs:set_command", "Change its name, or who decides its reviews."),
    "erase": ("waybook.cli.erase:org", "Erase an org and all that is its own."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def group() -> None:
    """Orgs: add, list, show, set, erase."""
