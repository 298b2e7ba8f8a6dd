"""`waybook org`, `waybook user` and `waybook token`: tenants, their users and API tokens."""

import click
from rich.text import Text

from waybook.accounts.model import NewUser, Org, TokenUse, User
from waybook.app.accounts.authentication import find_orgs
from waybook.app.accounts.members import (
    DEFAULT_DAYS,
    DEFAULT_SCOPES,
    add_token,
    add_user,
    change_org,
    change_scopes,
    disable_user,
    enable_user,
    is_active,
    list_members,
    revoke_token,
    start_org_audit,
)
from waybook.app.request.request_context import RequestContext
from waybook.cli.lazy import CommandGroup
from waybook.cli.operator.maintenance import erase_org_command, erase_user_command
from waybook.cli.options import combine, org_option, scopes_option
from waybook.cli.output import done
from waybook.cli.runtime import AppSession, Outcome, app_command
from waybook.cli.terminal.console import plain_table, unwrapped
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.core.durations import format_age
from waybook.core.hidden_characters import escape_hidden
from waybook.json_values import fields_of
from waybook.page_address import current_base_url

_slug_argument = click.argument("slug")
_name_argument = click.argument("name")
_org_options = combine(
    click.option("--name", metavar="TEXT", help="Display name."),
    click.option(
        "--review-policy",
        "policy",
        type=click.Choice([str(policy) for policy in ReviewPolicy]),
        callback=lambda _, __, word: ReviewPolicy(word) if word else None,
        help="Review policy: agents may relay decisions (relayed) or people only (human).",
    ),
)


@app_command(_slug_argument, _org_options)
async def add_org_command(
    here: AppSession, slug: str, name: str | None, policy: ReviewPolicy | None
) -> Outcome:
    """Create an org (an isolated tenant)."""
    await here.app.create_org(slug)
    call = await here.for_org(slug)
    await start_org_audit(call)
    org = await change_org(call, name=name, policy=policy)
    hint = f"  next: waybook user add NAME --org {org.slug}"
    return Outcome(_org_json(org), [done(f"created the org {org.slug}"), hint])


@app_command()
async def list_orgs_command(here: AppSession) -> Outcome:
    """List orgs."""
    mine = str(here.app.bearer.org_id) if here.app.bearer else None
    table, orgs = plain_table("org", "name", "reviews", "since (UTC)"), []
    for org, since in await find_orgs(here.app.services):
        if mine in {None, org.id}:
            orgs.append(_org_json(org))
            table.add_row(org.slug, org.name or "", org.review_policy, f"{since:%Y-%m-%d}")
    return Outcome(orgs, [table])


@app_command(_slug_argument)
async def show_org_command(here: AppSession, slug: str) -> Outcome:
    """Show an org: name, review policy, number of users."""
    members = await list_members(await here.for_org(slug))
    org, users, tokens = members.org, len(members.users), len(members.active_tokens)
    return Outcome(
        {**_org_json(org), "users": users, "tokens": tokens},
        [
            f"{click.style(org.slug, bold=True)}  {escape_hidden(org.name or '')}",
            f"  reviews  {org.review_policy}",
            f"  users    {users}",
            f"  tokens   {tokens} active",
        ],
    )


@app_command(_slug_argument, _org_options)
async def set_org_command(
    here: AppSession, slug: str, name: str | None, policy: ReviewPolicy | None
) -> Outcome:
    """Change an org's name or review policy."""
    if name is None and policy is None:
        raise click.UsageError("Nothing to change: pass --name or --review-policy.")
    org = await change_org(await here.for_org(slug), name=name, policy=policy)
    message = f"{org.slug}: {org.name or 'no name'}, reviews are {org.review_policy}"
    return Outcome(_org_json(org), [done(message)])


def _org_json(org: Org) -> dict[str, object]:
    return {
        "orgId": org.id,
        "slug": org.slug,
        "name": org.name,
        "reviewPolicy": str(org.review_policy),
    }


@app_command(
    _name_argument,
    click.option("--email", metavar="ADDRESS", help="Email address."),
    click.option(
        "--sign-in",
        nargs=2,
        metavar="ISSUER SUBJECT",
        help="Issuer and subject at your identity provider.",
    ),
    scopes_option((Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW)),
    org_option,
)
async def add_user_command(
    here: AppSession,
    name: str,
    email: str | None,
    sign_in: tuple[str, str] | None,
    scopes: tuple[Scope, ...],
    org: str | None,
) -> Outcome:
    """Add a user (person or service) to an org."""
    issuer, subject = sign_in or (None, None)
    new = NewUser(name=name, email=email, issuer=issuer, subject=subject, scopes=scopes)
    user = await add_user(await here.for_org(org), new)
    hint = f"  next: waybook token add {user.name} --label laptop{_of(org)}"
    return _changed(user, f"added {user.name}", hint)


def _of(org: str | None) -> str:
    return f" --org {org}" if org else ""


@app_command(org_option)
async def list_users_command(here: AppSession, org: str | None) -> Outcome:
    """List the users of an org."""
    users = (await list_members(await here.for_org(org))).users
    if not users:
        return Outcome([], [f"No users yet. Add one: waybook user add NAME{_of(org)}"])
    table = plain_table("name", "may", "email", "since (UTC)", "")
    for user in users:
        out = Text("✗ disabled", style="red") if user.disabled_at else Text("")
        since = f"{user.created_at:%Y-%m-%d}"
        table.add_row(user.name, " ".join(user.scopes), user.email or "", since, out)
    return Outcome([_user_json(user) for user in users], [table])


_scopes_argument = click.argument(
    "scopes",
    nargs=-1,
    required=True,
    type=click.Choice([str(scope) for scope in Scope]),
    metavar="SCOPE...",
)


@app_command(_name_argument, _scopes_argument, org=True)
async def scopes_command(call: RequestContext, name: str, scopes: tuple[str, ...]) -> Outcome:
    """Set a user's scopes.

    Replaces the user's scopes (plan:read, plan:write, run:write, review, admin). No token or
    session of the user can exceed them. To remove all scopes, disable the user.
    """
    user = await change_scopes(call, name, tuple(map(Scope, scopes)))
    return _changed(user, f"{user.name} now has the scopes: {' '.join(user.scopes)}")


@app_command(_name_argument, org=True)
async def disable_command(call: RequestContext, name: str) -> Outcome:
    """Disable a user immediately."""
    user = await disable_user(call, name)
    return _changed(user, f"disabled {user.name}")


@app_command(_name_argument, org=True)
async def enable_command(call: RequestContext, name: str) -> Outcome:
    """Enable a user; existing tokens work again."""
    user = await enable_user(call, name)
    return _changed(user, f"enabled {user.name}")


def _changed(user: User, message: str, *hints: str) -> Outcome:
    return Outcome(_user_json(user), [done(message), *hints])


def _user_json(user: User) -> dict[str, object]:
    names = "name email issuer subject scopes created_at disabled_at"
    return {"userId": user.id, **fields_of(user, names)}


@app_command(
    click.argument("user"),
    click.option(
        "--label", required=True, metavar="TEXT", help="Label, e.g. where the token is used."
    ),
    scopes_option(DEFAULT_SCOPES),
    click.option(
        "--days",
        type=click.IntRange(1, 3_650),
        default=DEFAULT_DAYS,
        help=f"Lifetime in days ({DEFAULT_DAYS}).",
    ),
    click.option("--never", is_flag=True, help="Never expire."),
    org=True,
)
async def add_token_command(
    call: RequestContext,
    user: str,
    label: str,
    scopes: tuple[Scope, ...],
    days: int,
    *,
    never: bool,
) -> Outcome:
    """Create a token for a user (shown once)."""
    issued = await add_token(call, user, label, scopes, days=None if never else days)
    until = issued.token.expires_at
    lasts = f"until {until:%Y-%m-%d}" if until else "until it is revoked"
    address = f"{current_base_url(call.services.settings)}/mcp"
    return Outcome(
        {**_token_json(TokenUse(issued.token, None, user)), "token": issued.secret},
        [
            done(f"token for {user}, valid {lasts}; it is shown only once:"),
            f"\n  {issued.secret}\n",
            f"  an agent  claude mcp add --transport http waybook {address} \\",
            f'              --header "Authorization: Bearer {issued.secret}"',
            f"  commands  WAYBOOK_TOKEN={issued.secret} waybook plan list",
        ],
    )


@app_command(
    click.option("--all", "every", is_flag=True, help="Include expired and revoked tokens."),
    org=True,
)
async def list_tokens_command(call: RequestContext, *, every: bool) -> Outcome:
    """List the tokens of an org (without secrets)."""
    members = await list_members(call)
    shown = members.tokens if every else members.active_tokens
    if not shown:
        return Outcome([], ["No active tokens. Create one: waybook token add USER --label TEXT"])
    heads = ("user", "label", "may", "last used", "expires", "")
    table = plain_table(unwrapped("id"), *heads)
    for token, last_used_at, user in shown:
        used = format_age(last_used_at, members.now) if last_used_at else "never"
        expires = f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "never"
        ended = "✗ revoked" if token.revoked_at else "✗ expired"
        state = Text("") if is_active(token, members.now) else Text(ended, style="red")
        table.add_row(token.id, user, token.label, " ".join(token.scopes), used, expires, state)
    return Outcome([_token_json(token_use) for token_use in shown], [table])


@app_command(click.argument("token_id", metavar="ID"), org=True)
async def revoke_command(call: RequestContext, token_id: str) -> Outcome:
    """Revoke a token permanently."""
    token = await revoke_token(call, token_id)
    value = {"tokenId": token.id, **fields_of(token, "revoked_at")}
    return Outcome(value, [done(f"{token.label} revoked")])


def _token_json(token_use: TokenUse) -> dict[str, object]:
    fields = fields_of(token_use.token, "label scopes created_at created_by expires_at revoked_at")
    used = fields_of(token_use, "user last_used_at")
    return {"tokenId": token_use.token.id, **fields, **used}


org_group = CommandGroup(
    help="Orgs: add, list, show, set, erase.",
    commands={
        "add": add_org_command,
        "list": list_orgs_command,
        "show": show_org_command,
        "set": set_org_command,
        "erase": erase_org_command,
    },
)
user_group = CommandGroup(
    help="Users: add, list, scopes, disable, enable, erase.",
    commands={
        "add": add_user_command,
        "list": list_users_command,
        "scopes": scopes_command,
        "disable": disable_command,
        "enable": enable_command,
        "erase": erase_user_command,
    },
)
token_group = CommandGroup(
    help="API tokens: add, list, revoke.",
    commands={
        "add": add_token_command,
        "list": list_tokens_command,
        "revoke": revoke_command,
    },
)
