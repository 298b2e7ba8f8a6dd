"""`waybook token`: API tokens for agents and programs."""

import asyncio
import json
from datetime import datetime

import click
from rich.table import Table
from rich.text import Text

from waybook.accounts.model import Token, TokenUse
from waybook.app.accounts.members import (
    DEFAULT_DAYS,
    DEFAULT_SCOPES,
    IssuedToken,
    Members,
    TokenRequest,
    add_token,
    list_members,
    revoke_token,
)
from waybook.cli.options import database_options, json_option, org_option, scopes_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.core.decision_context import Scope
from waybook.core.durations import format_age
from waybook.core.hidden_characters import escape_hidden
from waybook.page_address import current_base_url
from waybook.settings import Settings


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
def add_command(
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
    settings = load_settings(flags)
    request = TokenRequest(user=user, label=label, scopes=scopes, days=None if never else days)
    issued = asyncio.run(_add(settings, org, request))
    if as_json:
        click.echo(
            json.dumps({**token_json(TokenUse(issued.token, user, None)), "token": issued.secret})
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


async def _add(settings: Settings, org: str | None, request: TokenRequest) -> IssuedToken:
    async with open_app(settings) as here:
        return await add_token(await here.for_org(org), request)


@click.command()
@click.option("--all", "every", is_flag=True, help="Include expired and revoked tokens.")
@org_option
@json_option
@database_options
def list_command(*, every: bool, org: str | None, as_json: bool, **flags: object) -> None:
    """List the tokens of an org (without secrets)."""
    members = asyncio.run(_list(load_settings(flags), org))
    shown = members.tokens if every else members.active_tokens
    if as_json:
        print_json([token_json(token_use) for token_use in shown])
        return
    if not shown:
        click.echo("No active tokens. Create one: waybook token add USER --label TEXT")
        return
    get_console().print(_table(shown, members.now))


async def _list(settings: Settings, org: str | None) -> Members:
    async with open_app(settings) as here:
        return await list_members(await here.for_org(org))


def _table(tokens: list[TokenUse], now: datetime) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("id", no_wrap=True)
    for column in ("user", "label", "may", "last used", "expires", ""):
        table.add_column(column)
    for token, user, last_used_at in tokens:
        used = format_age(last_used_at, now) if last_used_at else "never"
        expires = f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "never"
        may, state = " ".join(token.scopes), _state(token, now)
        table.add_row(token.id, user, token.label, may, used, expires, state)
    return table


def _state(token: Token, now: datetime) -> Text:
    if token.revoked_at is not None:
        return Text("✗ revoked", style="red")
    if token.expires_at is not None and token.expires_at <= now:
        return Text("✗ expired", style="red")
    return Text("")


@click.command()
@click.argument("token_id", metavar="ID")
@org_option
@json_option
@database_options
def revoke_command(*, token_id: str, org: str | None, as_json: bool, **flags: object) -> None:
    """Revoke a token permanently."""
    token = asyncio.run(_revoke(load_settings(flags), org, token_id))
    if as_json:
        click.echo(json.dumps({"tokenId": token.id, "revokedAt": _time(token.revoked_at)}))
        return
    click.secho(f"✓ {escape_hidden(token.label)} revoked", fg="green")


async def _revoke(settings: Settings, org: str | None, token_id: str) -> Token:
    async with open_app(settings) as here:
        return await revoke_token(await here.for_org(org), token_id)


def token_json(token_use: TokenUse) -> dict[str, object]:
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
