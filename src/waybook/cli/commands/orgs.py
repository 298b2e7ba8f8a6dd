"""`waybook org`: orgs and their review policies."""

import asyncio
import json

import click
from rich.table import Table

from waybook.accounts.model import Org, OrgListItem
from waybook.app.accounts.lookup import find_orgs
from waybook.app.accounts.members import (
    Members,
    change_org,
    list_members,
    start_org_audit,
)
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.core.decision_context import ReviewPolicy
from waybook.core.hidden_characters import escape_hidden
from waybook.settings import Settings

name_option = click.option("--name", metavar="TEXT", help="Display name.")
review_policy_option = click.option(
    "--review-policy",
    type=click.Choice([str(policy) for policy in ReviewPolicy]),
    help="Review policy: agents may relay decisions (relayed) or people only (human).",
)


@click.command()
@click.argument("slug")
@name_option
@review_policy_option
@json_option
@database_options
def add_command(
    *, slug: str, name: str | None, review_policy: str | None, as_json: bool, **flags: object
) -> None:
    """Create an org (an isolated tenant)."""
    org = asyncio.run(_add(load_settings(flags), slug, name, _policy(review_policy)))
    if as_json:
        click.echo(json.dumps(org_json(org)))
        return
    click.secho(f"✓ created the org {org.slug}", fg="green")
    click.echo(f"  next: waybook user add NAME --org {org.slug}")


async def _add(settings: Settings, slug: str, name: str | None, policy: ReviewPolicy | None) -> Org:
    async with open_app(settings) as here:
        await here.app.create_org(slug)
        call = await here.for_org(slug)
        await start_org_audit(call)
        return await change_org(call, name=name, policy=policy)


@click.command()
@json_option
@database_options
def list_command(*, as_json: bool, **flags: object) -> None:
    """List orgs."""
    orgs = asyncio.run(_list(load_settings(flags)))
    if as_json:
        print_json([org_json(item.org) for item in orgs])
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for column in ("org", "name", "reviews", "since (UTC)"):
        table.add_column(column)
    for org, since in orgs:
        table.add_row(org.slug, org.name or "", org.review_policy, f"{since:%Y-%m-%d}")
    get_console().print(table)


async def _list(settings: Settings) -> list[OrgListItem]:
    async with open_app(settings) as here:
        orgs, bearer = await find_orgs(here.app.services), here.app.bearer
        mine = str(bearer.org_id) if bearer else None
        return [item for item in orgs if mine in {None, item.org.id}]


@click.command()
@click.argument("slug")
@json_option
@database_options
def show_command(*, slug: str, as_json: bool, **flags: object) -> None:
    """Show an org: name, review policy, number of users."""
    members = asyncio.run(_show(load_settings(flags), slug))
    counted = {"users": len(members.users), "tokens": len(members.active_tokens)}
    if as_json:
        print_json({**org_json(members.org), **counted})
        return
    org = members.org
    click.echo(f"{click.style(org.slug, bold=True)}  {escape_hidden(org.name or '')}")
    click.echo(f"  reviews  {org.review_policy}")
    click.echo(f"  users    {counted['users']}")
    click.echo(f"  tokens   {counted['tokens']} active")


async def _show(settings: Settings, slug: str) -> Members:
    async with open_app(settings) as here:
        return await list_members(await here.for_org(slug))


@click.command()
@click.argument("slug")
@name_option
@review_policy_option
@json_option
@database_options
def set_command(
    *, slug: str, name: str | None, review_policy: str | None, as_json: bool, **flags: object
) -> None:
    """Change an org's name or review policy."""
    if name is None and review_policy is None:
        raise click.UsageError("Nothing to change: pass --name or --review-policy.")
    org = asyncio.run(_set(load_settings(flags), slug, name, _policy(review_policy)))
    if as_json:
        print_json(org_json(org))
        return
    click.secho(
        f"✓ {org.slug}: {org.name or 'no name'}, reviews are {org.review_policy}", fg="green"
    )


async def _set(settings: Settings, slug: str, name: str | None, policy: ReviewPolicy | None) -> Org:
    async with open_app(settings) as here:
        return await change_org(await here.for_org(slug), name=name, policy=policy)


def _policy(word: str | None) -> ReviewPolicy | None:
    return ReviewPolicy(word) if word else None


def org_json(org: Org) -> dict[str, object]:
    return {
        "orgId": org.id,
        "slug": org.slug,
        "name": org.name,
        "reviewPolicy": str(org.review_policy),
    }
