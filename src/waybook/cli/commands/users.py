"""`waybook user`: users of an org and their scopes."""

import asyncio
from collections.abc import Awaitable, Callable

import click
from rich.table import Table
from rich.text import Text

from waybook.accounts.manage import NewUser
from waybook.accounts.model import User
from waybook.app.accounts.members import (
    add_user,
    change_scopes,
    disable_user,
    enable_user,
    list_members,
)
from waybook.app.request.request_context import RequestContext
from waybook.cli.options import database_options, json_option, org_option, scopes_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.core.decision_context import Scope
from waybook.core.hidden_characters import escape_hidden
from waybook.settings import Settings

DEFAULT_SCOPES = (Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW)


@click.command()
@click.argument("name")
@click.option("--email", metavar="ADDRESS", help="Email address.")
@click.option(
    "--sign-in",
    nargs=2,
    metavar="ISSUER SUBJECT",
    help="Issuer and subject at your identity provider.",
)
@scopes_option(DEFAULT_SCOPES, "Scopes")
@org_option
@json_option
@database_options
def add_command(
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
    user = _act(flags, org, lambda call: add_user(call, new))
    hint = f"  next: waybook token add {user.name} --label laptop{_of(org)}"
    _tell(user, f"added {user.name}", hint, as_json=as_json)


@click.command()
@org_option
@json_option
@database_options
def list_command(*, org: str | None, as_json: bool, **flags: object) -> None:
    """List the users of an org."""
    users = asyncio.run(_list(load_settings(flags), org))
    if as_json:
        print_json([user_json(user) for user in users])
        return
    if not users:
        click.echo(f"No users yet. Add one: waybook user add NAME{_of(org)}")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in ("name", "may", "email", "since (UTC)", ""):
        table.add_column(column)
    for user in users:
        out = Text("✗ disabled", style="red") if user.disabled_at else Text("")
        since = f"{user.created_at:%Y-%m-%d}"
        table.add_row(user.name, " ".join(user.scopes), user.email or "", since, out)
    get_console().print(table)


async def _list(settings: Settings, org: str | None) -> list[User]:
    async with open_app(settings) as here:
        return (await list_members(await here.for_org(org))).users


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
    user = _act(flags, org, lambda call: change_scopes(call, name, wanted))
    _tell(user, f"{user.name} now has the scopes: {' '.join(user.scopes)}", "", as_json=as_json)


@click.command()
@click.argument("name")
@org_option
@json_option
@database_options
def disable_command(*, name: str, org: str | None, as_json: bool, **flags: object) -> None:
    """Disable a user immediately."""
    user = _act(flags, org, lambda call: disable_user(call, name))
    _tell(user, f"disabled {user.name}", "", as_json=as_json)


@click.command()
@click.argument("name")
@org_option
@json_option
@database_options
def enable_command(*, name: str, org: str | None, as_json: bool, **flags: object) -> None:
    """Enable a user; existing tokens work again."""
    user = _act(flags, org, lambda call: enable_user(call, name))
    _tell(user, f"enabled {user.name}", "", as_json=as_json)


def _act(
    flags: dict[str, object], org: str | None, act: Callable[[RequestContext], Awaitable[User]]
) -> User:
    return asyncio.run(_acted(load_settings(flags), org, act))


async def _acted(
    settings: Settings, org: str | None, act: Callable[[RequestContext], Awaitable[User]]
) -> User:
    async with open_app(settings) as here:
        return await act(await here.for_org(org))


def _tell(user: User, message: str, hint: str, *, as_json: bool) -> None:
    if as_json:
        print_json(user_json(user))
        return
    click.secho(f"✓ {escape_hidden(message)}", fg="green")
    if hint:
        click.echo(hint)


def _of(org: str | None) -> str:
    return f" --org {org}" if org else ""


def user_json(user: User) -> dict[str, object]:
    return {
        "userId": user.id,
        "name": user.name,
        "email": user.email,
        "issuer": user.issuer,
        "subject": user.subject,
        "scopes": [*user.scopes],
        "createdAt": user.created_at.isoformat(),
        "disabledAt": user.disabled_at.isoformat() if user.disabled_at else None,
    }
