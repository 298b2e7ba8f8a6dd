"""Command groups `audit`, `org`, `user` and `token`, which import a command when it is used."""

import click

from waybook.cli.lazy import LazyGroup

AUDIT_COMMANDS = {
    "anchor": (
        "commands.anchoring:anchor_command",
        "Write the last seal of every chain to a file outside the database.",
    ),
    "as-of": (
        "commands.anchoring:as_of_command",
        "Show a plan or run as of a time or an audit entry number.",
    ),
    "list": (
        "commands.anchoring:list_command",
        "List audit entries, newest first, for one plan or run or all.",
    ),
    "verify": (
        "commands.anchoring:verify_command",
        "Verify the audit chain and replay it against the database.",
    ),
}


@click.group(cls=LazyGroup, table=AUDIT_COMMANDS)
def audit_group() -> None:
    """Read and verify the audit log, or view past states."""


ORG_COMMANDS = {
    "add": ("commands.members:add_org_command", "Create an org (an isolated tenant)."),
    "list": ("commands.members:list_orgs_command", "List orgs."),
    "show": (
        "commands.members:show_org_command",
        "Show an org: name, review policy, number of users.",
    ),
    "set": ("commands.members:set_org_command", "Change an org's name or review policy."),
    "erase": ("commands.maintenance:org", "Erase an org and all its data."),
}


@click.group(cls=LazyGroup, table=ORG_COMMANDS)
def org_group() -> None:
    """Orgs: add, list, show, set, erase."""


USER_COMMANDS = {
    "add": ("commands.members:add_user_command", "Add a user (person or service) to an org."),
    "list": ("commands.members:list_users_command", "List the users of an org."),
    "scopes": ("commands.members:scopes_command", "Set a user's scopes."),
    "disable": ("commands.members:disable_command", "Disable a user immediately."),
    "enable": ("commands.members:enable_command", "Enable a user; existing tokens work again."),
    "erase": ("commands.maintenance:user", "Erase a user (replace the name with a pseudonym)."),
}


@click.group(cls=LazyGroup, table=USER_COMMANDS)
def user_group() -> None:
    """The users of an org: add, list, scopes, disable, enable, erase."""


TOKEN_COMMANDS = {
    "add": ("commands.members:add_token_command", "Create a token for a user (shown once)."),
    "list": (
        "commands.members:list_tokens_command",
        "List the tokens of an org (without secrets).",
    ),
    "revoke": ("commands.members:revoke_command", "Revoke a token permanently."),
}


@click.group(cls=LazyGroup, table=TOKEN_COMMANDS)
def token_group() -> None:
    """API tokens: add, list, revoke."""
