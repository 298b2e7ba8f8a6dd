"""`waybook webhooks`: list, test and retry deliveries of notifications."""

import sys
from collections.abc import Awaitable, Callable

import click
from rich.text import Text

from waybook.app.accounts.lookup import revoke_action_links
from waybook.app.operations.delivery import retry_delivery, send_test_notification
from waybook.app.queries.usage import list_deliveries
from waybook.app.queries.work_list import resolve_plan_or_run
from waybook.app.request.request_context import RequestContext
from waybook.cli.options import database_options, json_option, limit_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, run_in_app
from waybook.cli.terminal.console import plain_table
from waybook.core.events import NotificationKind
from waybook.errors import Misconfigured
from waybook.notifications.delivery import Delivery, DeliveryStatus
from waybook.settings import Settings

_STATUS_STYLES = {
    DeliveryStatus.WAITING: Text("… waiting", style="yellow"),
    DeliveryStatus.DELIVERED: Text("✓ delivered", style="green"),
    DeliveryStatus.GIVEN_UP: Text("✗ given up", style="red"),
}


@click.group(invoke_without_command=True)
@click.pass_context
def group(context: click.Context) -> None:
    """Webhook deliveries: list, test, retry.

    Without a subcommand, lists recent deliveries.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command, limit=20, as_json=False)


@group.command("list")
@limit_option(20)
@json_option
@database_options
def list_command(*, limit: int, as_json: bool, **flags: object) -> None:
    """List recent deliveries and their status."""
    settings = load_settings(flags)
    deliveries = run_in_app(settings, lambda here: list_deliveries(here.call, limit=limit))
    if as_json:
        print_json([_delivery_json(delivery) for delivery in deliveries])
        return
    if not deliveries:
        off = "" if settings.webhook_url else "; webhooks are off, since there is no webhook_url"
        click.echo(f"No deliveries yet{off}.")
        return
    table = plain_table("id", "when (UTC)", "event", "", no_wrap=True)
    table.add_column("tries", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for delivery in deliveries:
        when = Text(f"{delivery.at:%m-%d %H:%M:%S}", style="dim")
        tries, error = str(delivery.attempt), Text(delivery.error or "")
        table.add_row(
            delivery.id, when, delivery.event, _STATUS_STYLES[delivery.status], tries, error
        )
    get_console().print(table)


@group.command("test")
@json_option
@database_options
def test_command(*, as_json: bool, **flags: object) -> None:
    """Send a test notification and report the delivery status.

    Exits with code 1 if it was not delivered.
    """
    _send(load_settings(flags), send_test_notification, as_json=as_json)


@group.command("retry")
@click.argument("message", metavar="ID")
@json_option
@database_options
def retry_command(*, message: str, as_json: bool, **flags: object) -> None:
    """Redeliver a notification with the same id and report the status.

    If it fails, delivery is retried for another day and the exit code is 1.
    """
    _send(load_settings(flags), lambda call: retry_delivery(call, message), as_json=as_json)


@group.command("revoke-links")
@click.argument("subject", metavar="[PLAN|RUN]", required=False)
@json_option
@database_options
def revoke_links_command(*, subject: str | None, as_json: bool, **flags: object) -> None:
    """Revoke the links in messages that ask for a decision, of one plan or run or of all."""

    async def revoke(here: AppSession) -> int:
        subject_id = await resolve_plan_or_run(here.call, subject) if subject else None
        return await revoke_action_links(here.call, subject_id)

    count = run_in_app(load_settings(flags), revoke)
    if as_json:
        print_json({"revoked": count})
    else:
        noun = "message" if count == 1 else "messages"
        click.echo(f"The links of {count} {noun} are revoked; nothing is decided.")


def _send(
    settings: Settings, act: Callable[[RequestContext], Awaitable[Delivery]], *, as_json: bool
) -> None:
    if settings.webhook_url is None:
        raise Misconfigured("webhooks are off: set webhook_url, and webhook_secret")
    sent = run_in_app(settings, lambda here: act(here.call))
    if as_json:
        print_json(_delivery_json(sent))
    else:
        get_console().print(_describe_delivery(sent))
    sys.exit(int(sent.status is not DeliveryStatus.DELIVERED))


def _describe_delivery(sent: Delivery) -> Text:
    what = "the test" if sent.event == NotificationKind.TEST else sent.event
    if sent.status is DeliveryStatus.DELIVERED:
        return Text(f"✓ {what} arrived ({sent.answered})", style="green")
    return Text.assemble(
        (f"✗ {what} did not arrive: {sent.error or 'another process is delivering it'}", "red"),
        f"\n  {sent.id}",
    )


def _delivery_json(delivery: Delivery) -> dict[str, object]:
    return {
        "id": delivery.id,
        "event": delivery.event,
        "status": str(delivery.status),
        "attempts": delivery.attempt,
        "at": delivery.at.isoformat(),
        "nextAt": delivery.due_at.isoformat()
        if delivery.status is DeliveryStatus.WAITING
        else None,
        "settledAt": delivery.settled_at.isoformat() if delivery.settled_at else None,
        "answered": delivery.answered,
        "fault": delivery.error,
        "data": delivery.data,
    }
