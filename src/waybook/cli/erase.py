"""`waybook org erase` and `waybook user erase`: gone, but for a record that it was there."""

import asyncio
from collections.abc import Callable, Coroutine

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from waybook.cli.inside import get_console, load_settings
from waybook.cli.options import database_options, json_option
from waybook.cli.printing import print_json
from waybook.settings import Settings
from waybook.store.erasure import Erased
from waybook.usecases.erase import erase_org, erase_user
from waybook.wiring import database_server, run_migrations

Erase = Callable[[str, Callable[[int, int], None]], Coroutine[object, object, Erased]]

yes_option = click.option("--yes", is_flag=True, help="Do not ask, for scripts.")


@click.command()
@click.argument("slug")
@yes_option
@json_option
@database_options
def org(*, slug: str, yes: bool, as_json: bool, **flags: object) -> None:
    """Erase an org and all that is its own.

    Every row of it goes, out of every table. Of its audit a record is left that says when it was
    erased and by whom, how much it was, and the seal each chain ended with.
    """
    settings = load_settings(flags)
    _confirm(f"Everything of the org {slug} will be gone for good.", slug, yes=yes)
    erased = asyncio.run(
        _erase(
            settings, lambda owner, tell: erase_org(owner, slug, by=settings.user, progress=tell)
        )
    )
    _tell(erased, f"the org {slug} is erased", as_json=as_json)


@click.command()
@click.argument("org")
@click.argument("user")
@yes_option
@json_option
@database_options
def user(*, org: str, user: str, yes: bool, as_json: bool, **flags: object) -> None:
    """Erase a user: their name gives way to a pseudonym.

    The user goes with all tokens and browsers. What they wrote is the org's and stays, under a
    pseudonym that says nothing; the chains of the audit that named them are sealed anew.
    """
    settings = load_settings(flags)
    _confirm(f"The name {user} will be gone from the org {org} for good.", user, yes=yes)
    erased = asyncio.run(
        _erase(
            settings,
            lambda owner, tell: erase_user(owner, org, user, by=settings.user, progress=tell),
        )
    )
    _tell(erased, f"the user is erased, and is {erased.who} from now on", as_json=as_json)


def _confirm(warning: str, name: str, *, yes: bool) -> None:
    if yes:
        return
    click.echo(f"{warning} This cannot be undone.")
    if click.prompt(f"Type {name} to go on", default="", show_default=False) != name:
        raise click.Abort


async def _erase(settings: Settings, erase: Erase) -> Erased:
    columns = (TextColumn("erasing"), BarColumn(), MofNCompleteColumn())
    await run_migrations(settings)
    async with database_server(settings) as postgres:
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task("erasing", total=None)

            def tell(done: int, total: int) -> None:
                shown.update(task, completed=done, total=total)

            return await erase(postgres.owner_dsn, tell)


def _tell(erased: Erased, said: str, *, as_json: bool) -> None:
    if as_json:
        told = {"orgId": str(erased.org_id), "erasure": erased.number, "pseudonym": erased.who}
        print_json({**told, "rows": erased.counts})
        return
    console = get_console()
    rows = Table("table", "rows", box=None, pad_edge=False)
    for table, count in erased.counts.items():
        rows.add_row(table, str(count))
    console.print(rows)
    console.print(Text.assemble(("✓ ", "green"), said))
    console.print(Text(f"  on record as erasure {erased.number} of org {erased.org_id}"))
