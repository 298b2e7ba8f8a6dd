"""`waybook org`, `waybook user` and `waybook token`: tenants, their users and API tokens."""

import json
from collections.abc import Awaitable, Callable
from datetime import datetime

import click
from rich.text import Text

from waybook.accounts.manage import NewUser
from waybook.accounts.model import Org, OrgListItem, TokenUse, User
from waybook.app.accounts.lookup import find_orgs
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
from waybook.cli.options import database_options, json_option, org_option, scopes_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, T, get_console, load_settings, run_in_app
from waybook.cli.terminal.console import plain_table
from waybook.core.decision_context import ReviewPolicy, Scope
from waybook.core.durations import format_age
from waybook.core.hidden_characters import escape_hidden
from waybook.page_address import current_base_url
from waybook.settings import Settings

_name_option = click.option("--name", metavar="TEXT", help="Display name.")
_review_policy_option = click.option(
    "--review-policy",
    type=click.Choice([str(policy) for policy in ReviewPolicy]),
    callback=lambda _, __, word: ReviewPolicy(word) if word else None,
    help="Review policy: agents may relay decisions (relayed) or people only (human).",
)


def _in_org(
    settings: Settings, org: str | None, work: Callable[[RequestContext], Awaitable[T]]
) -> T:
    async def run(here: AppSession) -> T:
        return await work(await here.for_org(org))

    return run_in_app(settings, run)


@click.command()
@click.argument("slug")
@_name_option
@_review_policy_option
@json_option
@database_options
def add_org_command(
    *,
    slug: str,
    name: str | None,
    review_policy: ReviewPolicy | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Create an org (an isolated tenant)."""

    async def add(here: AppSession) -> Org:
        await here.app.create_org(slug)
        call = await here.for_org(slug)
        await start_org_audit(call)
        return await change_org(call, name=name, policy=review_policy)

    org = run_in_app(load_settings(flags), add)
    if as_json:
        click.echo(json.dumps(_org_json(org)))
        return
    click.secho(f"✓ created the org {org.slug}", fg="green")
    click.echo(f"  next: waybook user add NAME --org {org.slug}")


@click.command()
@json_option
@database_options
def list_orgs_command(*, as_json: bool, **flags: object) -> None:
    """List orgs."""

    async def find(here: AppSession) -> list[OrgListItem]:
        orgs, bearer = await find_orgs(here.app.services), here.app.bearer
        mine = str(bearer.org_id) if bearer else None
        return [item for item in orgs if mine in {None, item.org.id}]

    orgs = run_in_app(load_settings(flags), find)
    if as_json:
        print_json([_org_json(item.org) for item in orgs])
        return
    table = plain_table("org", "name", "reviews", "since (UTC)")
    for org, since in orgs:
        table.add_row(org.slug, org.name or "", org.review_policy, f"{since:%Y-%m-%d}")
    get_console().print(table)


@click.command()
@click.argument("slug")
@json_option
@database_options
def show_org_command(*, slug: str, as_json: bool, **flags: object) -> None:
    """Show an org: name, review policy, number of users."""
    members = _in_org(load_settings(flags), slug, list_members)
    counted = {"users": len(members.users), "tokens": len(members.active_tokens)}
    org = members.org
    if as_json:
        print_json({**_org_json(org), **counted})
        return
    click.echo(f"{click.style(org.slug, bold=True)}  {escape_hidden(org.name or '')}")
    click.echo(f"  reviews  {org.review_policy}")
    click.echo(f"  users    {counted['users']}")
    click.echo(f"  tokens   {counted['tokens']} active")


@click.command()
@click.argument("slug")
@_name_option
@_review_policy_option
@json_option
@database_options
def set_org_command(
    *,
    slug: str,
    name: str | None,
    review_policy: ReviewPolicy | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Change an org's name or review policy."""
    if name is None and review_policy is None:
        raise click.UsageError("Nothing to change: pass --name or --review-policy.")
    org = _in_org(
        load_settings(flags), slug, lambda call: change_org(call, name=name, policy=review_policy)
    )
    if as_json:
        print_json(_org_json(org))
        return
    click.secho(
        f"✓ {org.slug}: {org.name or 'no name'}, reviews are {org.review_policy}", fg="green"
    )


def _org_json(org: Org) -> dict[str, object]:
    return {
        "orgId": org.id,
        "slug": org.slug,
        "name": org.name,
        "reviewPolicy": str(org.review_policy),
    }


@click.command()
@click.argument("name")
@click.option("--email", metavar="ADDRESS", help="Email address.")
@click.option(
    "--sign-in",
    nargs=2,
    metavar="ISSUER SUBJECT",
    help="Issuer and subject at your identity provider.",
)
@scopes_option((Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW), "Scopes")
@org_option
@json_option
@database_options
def add_user_command(
    *,
    name: str,
    email: str | None,
    sign_in: tuple[str, str] | None,
    scopes: tuple[Scope, ...],
    org: str | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Add a user (person or service) to an org."""
    issuer, subject = sign_in or (None, None)
    new = NewUser(name=name, email=email, issuer=issuer, subject=subject, scopes=scopes)
    user = _in_org(load_settings(flags), org, lambda call: add_user(call, new))
    hint = f"  next: waybook token add {user.name} --label laptop{_of(org)}"
    _print_user(user, f"added {user.name}", hint, as_json=as_json)


@click.command()
@org_option
@json_option
@database_options
def list_users_command(*, org: str | None, as_json: bool, **flags: object) -> None:
    """List the users of an org."""
    users = _in_org(load_settings(flags), org, list_members).users
    if as_json:
        print_json([_user_json(user) for user in users])
        return
    if not users:
        click.echo(f"No users yet. Add one: waybook user add NAME{_of(org)}")
        return
    table = plain_table("name", "may", "email", "since (UTC)", "")
    for user in users:
        out = Text("✗ disabled", style="red") if user.disabled_at else Text("")
        since = f"{user.created_at:%Y-%m-%d}"
        table.add_row(user.name, " ".join(user.scopes), user.email or "", since, out)
    get_console().print(table)


@click.command()
@click.argument("name")
@click.argument(
    "scopes",
    nargs=-1,
    required=True,
    type=click.Choice([str(scope) for scope in Scope]),
    metavar="SCOPE...",
)
@org_option
@json_option
@database_options
def scopes_command(
    *, name: str, scopes: tuple[str, ...], org: str | None, as_json: bool, **flags: object
) -> None:
    """Set a user's scopes.

    Replaces the user's scopes (plan:read, plan:write, run:write, review, admin). No token or
    session of the user can exceed them. To remove all scopes, disable the user.
    """
    wanted = tuple(map(Scope, scopes))
    user = _in_org(load_settings(flags), org, lambda call: change_scopes(call, name, wanted))
    message = f"{user.name} now has the scopes: {' '.join(user.scopes)}"
    _print_user(user, message, as_json=as_json)


@click.command()
@click.argument("name")
@org_option
@json_option
@database_options
def disable_command(*, name: str, org: str | None, as_json: bool, **flags: object) -> None:
    """Disable a user immediately."""
    user = _in_org(load_settings(flags), org, lambda call: disable_user(call, name))
    _print_user(user, f"disabled {user.name}", as_json=as_json)


@click.command()
@click.argument("name")
@org_option
@json_option
@database_options
def enable_command(*, name: str, org: str | None, as_json: bool, **flags: object) -> None:
    """Enable a user; existing tokens work again."""
    user = _in_org(load_settings(flags), org, lambda call: enable_user(call, name))
    _print_user(user, f"enabled {user.name}", as_json=as_json)


def _print_user(user: User, message: str, hint: str = "", *, as_json: bool) -> None:
    if as_json:
        print_json(_user_json(user))
        return
    click.secho(f"✓ {escape_hidden(message)}", fg="green")
    if hint:
        click.echo(hint)


def _of(org: str | None) -> str:
    return f" --org {org}" if org else ""


def _user_json(user: User) -> dict[str, object]:
    return {
        "userId": user.id,
        "name": user.name,
        "email": user.email,
        "issuer": user.issuer,
        "subject": user.subject,
        "scopes": [*user.scopes],
        "createdAt": _time(user.created_at),
        "disabledAt": _time(user.disabled_at),
    }


@click.command()
@click.argument("user")
@click.option("--label", required=True, metavar="TEXT", help="Label, e.g. where the token is used.")
@scopes_option(DEFAULT_SCOPES, "Scopes")
@click.option(
    "--days",
    type=click.IntRange(1, 3_650),
    default=DEFAULT_DAYS,
    help=f"Lifetime in days ({DEFAULT_DAYS}).",
)
@click.option("--never", is_flag=True, help="Never expire.")
@org_option
@json_option
@database_options
def add_token_command(
    *,
    user: str,
    label: str,
    scopes: tuple[Scope, ...],
    days: int,
    never: bool,
    org: str | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Create a token for a user (shown once)."""
    settings, valid = load_settings(flags), None if never else days
    issued = _in_org(settings, org, lambda call: add_token(call, user, label, scopes, days=valid))
    if as_json:
        click.echo(
            json.dumps({**_token_json(TokenUse(issued.token, None, user)), "token": issued.secret})
        )
        return
    until = issued.token.expires_at
    lasts = f"until {until:%Y-%m-%d}" if until else "until it is revoked"
    click.secho(f"✓ token for {user}, valid {lasts}; it is shown only once:", fg="green")
    click.echo(f"\n  {issued.secret}\n")
    address = f"{current_base_url(settings)}/mcp"
    click.echo("  an agent  claude mcp add --transport http waybook " + address + " \\")
    click.echo(f'              --header "Authorization: Bearer {issued.secret}"')
    click.echo(f"  commands  WAYBOOK_TOKEN={issued.secret} waybook plans")


@click.command()
@click.option("--all", "every", is_flag=True, help="Include expired and revoked tokens.")
@org_option
@json_option
@database_options
def list_tokens_command(*, every: bool, org: str | None, as_json: bool, **flags: object) -> None:
    """List the tokens of an org (without secrets)."""
    members = _in_org(load_settings(flags), org, list_members)
    shown = members.tokens if every else members.active_tokens
    if as_json:
        print_json([_token_json(token_use) for token_use in shown])
        return
    if not shown:
        click.echo("No active tokens. Create one: waybook token add USER --label TEXT")
        return
    table = plain_table("id", no_wrap=True)
    for column in ("user", "label", "may", "last used", "expires", ""):
        table.add_column(column)
    for token, last_used_at, user in shown:
        used = format_age(last_used_at, members.now) if last_used_at else "never"
        expires = f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "never"
        ended = "✗ revoked" if token.revoked_at else "✗ expired"
        state = Text("") if is_active(token, members.now) else Text(ended, style="red")
        table.add_row(token.id, user, token.label, " ".join(token.scopes), used, expires, state)
    get_console().print(table)


@click.command()
@click.argument("token_id", metavar="ID")
@org_option
@json_option
@database_options
def revoke_command(*, token_id: str, org: str | None, as_json: bool, **flags: object) -> None:
    """Revoke a token permanently."""
    token = _in_org(load_settings(flags), org, lambda call: revoke_token(call, token_id))
    if as_json:
        click.echo(json.dumps({"tokenId": token.id, "revokedAt": _time(token.revoked_at)}))
        return
    click.secho(f"✓ {escape_hidden(token.label)} revoked", fg="green")


def _token_json(token_use: TokenUse) -> dict[str, object]:
    token = token_use.token
    return {
        "tokenId": token.id,
        "user": token_use.user,
        "label": token.label,
        "scopes": [*token.scopes],
        "createdAt": _time(token.created_at),
        "createdBy": token.created_by,
        "expiresAt": _time(token.expires_at),
        "lastUsedAt": _time(token_use.last_used_at),
        "revokedAt": _time(token.revoked_at),
    }


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
