"""`waybook webhooks`: list, test and retry deliveries of notifications."""

import click
from rich.table import Column
from rich.text import Text

from waybook.app.accounts.authentication import revoke_action_links
from waybook.app.operations.delivery import retry_delivery, send_test_notification
from waybook.app.queries.usage import Row, list_deliveries
from waybook.app.queries.work_list import resolve_plan_or_run
from waybook.app.request.request_context import RequestContext
from waybook.cli.lazy import CommandGroup
from waybook.cli.options import limit_option
from waybook.cli.runtime import AppSession, Outcome, app_command
from waybook.cli.terminal.console import figures, plain_table, unwrapped
from waybook.core.events import NotificationKind
from waybook.errors import Misconfigured
from waybook.json_values import fields_of
from waybook.notifications.delivery import DeliveryStatus

_STATUS_STYLES = {
    DeliveryStatus.WAITING: Text("… waiting", style="yellow"),
    DeliveryStatus.DELIVERED: Text("✓ delivered", style="green"),
    DeliveryStatus.GIVEN_UP: Text("✗ given up", style="red"),
}


@app_command(limit_option(20))
async def list_command(here: AppSession, limit: int) -> Outcome:
    """List recent deliveries and their status."""
    deliveries = await list_deliveries(here.call, limit=limit)
    if not deliveries:
        is_off = here.app.settings.webhook_url is None
        off = "; webhooks are off, since there is no webhook_url" if is_off else ""
        return Outcome([], [f"No deliveries yet{off}."])
    heads = ("id", "when (UTC)", "event", "")
    table = plain_table(*map(unwrapped, heads), figures("tries"), Column(overflow="fold"))
    for delivery in deliveries:
        when = Text(f"{delivery.at:%m-%d %H:%M:%S}", style="dim")
        tries, error = str(delivery.attempt), Text(delivery.error or "")
        table.add_row(
            delivery.id, when, delivery.event, _STATUS_STYLES[delivery.status], tries, error
        )
    return Outcome([_delivery_json(delivery) for delivery in deliveries], [table])


@app_command()
async def test_command(here: AppSession) -> Outcome:
    """Send a test notification and report the delivery status.

    Exits with code 1 if it was not delivered.
    """
    return _sent(await send_test_notification(_require_webhook(here)))


@app_command(click.argument("message", metavar="ID"))
async def retry_command(here: AppSession, message: str) -> Outcome:
    """Redeliver a notification with the same id and report the status.

    If it fails, delivery is retried for another day and the exit code is 1.
    """
    return _sent(await retry_delivery(_require_webhook(here), message))


@app_command(click.argument("subject", metavar="[PLAN|RUN]", required=False))
async def revoke_links_command(here: AppSession, subject: str | None) -> Outcome:
    """Revoke the decision links in sent messages, for one plan or run or for all."""
    subject_id = await resolve_plan_or_run(here.call, subject) if subject else None
    count = await revoke_action_links(here.call, subject_id)
    noun = "message" if count == 1 else "messages"
    return Outcome(
        {"revoked": count}, [f"The links of {count} {noun} are revoked; nothing is decided."]
    )


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    commands={
        "list": list_command,
        "test": test_command,
        "retry": retry_command,
        "revoke-links": revoke_links_command,
    },
)
@click.pass_context
def group(context: click.Context) -> None:
    """Webhook deliveries: list, test, retry.

    Without a subcommand, lists recent deliveries.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command)


def _require_webhook(here: AppSession) -> RequestContext:
    if here.app.settings.webhook_url is None:
        raise Misconfigured("webhooks are off: set webhook_url, and webhook_secret")
    return here.call


def _sent(sent: Row) -> Outcome:
    is_delivered = sent.status is DeliveryStatus.DELIVERED
    what = "the test" if sent.event == NotificationKind.TEST else sent.event
    why = sent.error or "another process is delivering it"
    lines = (
        [Text(f"✓ {what} arrived ({sent.answered})", style="green")]
        if is_delivered
        else [Text(f"✗ {what} did not arrive: {why}", style="red"), Text(f"  {sent.id}")]
    )
    return Outcome(_delivery_json(sent), lines, exit_code=int(not is_delivered))


def _delivery_json(delivery: Row) -> dict[str, object]:
    is_waiting = delivery.status is DeliveryStatus.WAITING
    return {
        **fields_of(delivery, "id event status at settled_at answered data"),
        "attempts": delivery.attempt,
        "nextAt": delivery.due_at.isoformat() if is_waiting else None,
        "fault": delivery.error,
    }
