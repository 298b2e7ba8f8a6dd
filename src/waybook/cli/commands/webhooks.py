"""`waybook webhooks`: delivery of notifications, with test and retry."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import click
from rich.table import Table
from rich.text import Text

from waybook.app.operations.delivery import retry_delivery, send_test_notification
from waybook.app.queries.usage import list_deliveries
from waybook.app.request.request_context import RequestContext
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.core.events import NotificationKind
from waybook.errors import Misconfigured
from waybook.notifications.message import DeliveryStatus
from waybook.settings import Settings
from waybook.store.deliveries import Delivery

STATUS_STYLES = {
    DeliveryStatus.WAITING: Text("… waiting", style="yellow"),
    DeliveryStatus.DELIVERED: Text("✓ delivered", style="green"),
    DeliveryStatus.GIVEN_UP: Text("✗ given up", style="red"),
}


@click.group(invoke_without_command=True)
@click.pass_context
def group(context: click.Context) -> None:
    """Whether notices arrive: list, test, retry.

    By itself it lists the last ones.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command, limit=20, as_json=False)


@group.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="At most so many (20).")
@json_option
@database_options
def list_command(*, limit: int, as_json: bool, **flags: object) -> None:
    """The last notices, and what came of each."""
    settings = load_settings(flags)
    found = asyncio.run(_list(settings, limit))
    if as_json:
        print_json([delivery_json(one) for one in found])
        return
    if not found:
        off = "" if settings.webhook_url else "; webhooks are off, since there is no webhook_url"
        click.echo(f"Nobody has been told anything yet{off}.")
        return
    get_console().print(_table(found))


async def _list(settings: Settings, limit: int) -> list[Delivery]:
    async with open_app(settings) as here:
        return await list_deliveries(here.call, limit=limit)


def _table(found: list[Delivery]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in ("id", "when (UTC)", "event"):
        table.add_column(name, no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("tries", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in found:
        when = Text(f"{one.at:%m-%d %H:%M:%S}", style="dim")
        tries, error = str(one.attempt), Text(one.fault or "")
        table.add_row(one.id, when, one.event, STATUS_STYLES[one.status], tries, error)
    return table


@group.command("test")
@json_option
@database_options
def test_command(*, as_json: bool, **flags: object) -> None:
    """Send a notice that asks nothing of anybody, and say whether it arrived.

    Ends with exit code 1 if it did not.
    """
    _send(load_settings(flags), send_test_notification, as_json=as_json)


@group.command("retry")
@click.argument("letter", metavar="ID")
@json_option
@database_options
def retry_command(*, letter: str, as_json: bool, **flags: object) -> None:
    """Deliver a notice once more, under the same id, and say whether it arrived.

    If it does not, it is tried again for another day. Ends with exit code 1 then.
    """
    _send(load_settings(flags), lambda call: retry_delivery(call, letter), as_json=as_json)


def _send(
    settings: Settings, act: Callable[[RequestContext], Awaitable[Delivery]], *, as_json: bool
) -> None:
    if settings.webhook_url is None:
        raise Misconfigured("webhooks are off: set webhook_url, and webhook_secret")
    sent = asyncio.run(_act(settings, act))
    if as_json:
        print_json(delivery_json(sent))
    else:
        get_console().print(_said(sent))
    sys.exit(int(sent.status is not DeliveryStatus.DELIVERED))


async def _act(
    settings: Settings, act: Callable[[RequestContext], Awaitable[Delivery]]
) -> Delivery:
    async with open_app(settings) as here:
        return await act(here.call)


def _said(sent: Delivery) -> Text:
    what = "the test" if sent.event == NotificationKind.TEST else sent.event
    if sent.status is DeliveryStatus.DELIVERED:
        return Text(f"✓ {what} arrived ({sent.answered})", style="green")
    return Text.assemble(
        (f"✗ {what} did not arrive: {sent.fault or 'somebody else delivers it now'}", "red"),
        f"\n  {sent.id}",
    )


def delivery_json(one: Delivery) -> dict[str, object]:
    """Return a delivery as a JSON object."""
    return {
        "id": one.id,
        "event": one.event,
        "status": str(one.status),
        "attempts": one.attempt,
        "at": one.at.isoformat(),
        "nextAt": one.due_at.isoformat() if one.status is DeliveryStatus.WAITING else None,
        "settledAt": one.settled_at.isoformat() if one.settled_at else None,
        "answered": one.answered,
        "fault": one.fault,
        "data": one.data,
    }
