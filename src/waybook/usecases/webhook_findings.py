"""What an examination finds of webhooks: whether they are in order, and whether they arrive."""

from collections.abc import Iterator

from waybook.endpoints.webhook_settings import WebhookSettings, webhook_from_settings
from waybook.errors import Misconfigured
from waybook.notices.texts import load_templates
from waybook.settings import Settings
from waybook.store.deliveries import Deliveries
from waybook.usecases.findings import CheckResult, CheckState
from waybook.usecases.secrets import display_setting

COMMAND_HINT = "waybook webhooks"


def check_webhooks(settings: Settings) -> Iterator[CheckResult]:
    """Whether the settings of webhooks fit together."""
    try:
        webhook = webhook_from_settings(settings)
        if webhook is not None:
            load_templates(webhook.custom_templates())
    except Misconfigured as error:
        todo = "see docs/how-to/be-told-when-you-are-needed.md"
        yield CheckResult("webhooks", CheckState.FAIL, error.message, todo)
        return
    if webhook is None:
        yield CheckResult("webhooks", CheckState.OK, "off")
    else:
        yield _where(webhook)


def _where(webhook: WebhookSettings) -> CheckResult:
    place = display_setting("webhook_url", webhook.url)
    said = f"{len(webhook.events)} events to {place}, as {webhook.format}"
    if webhook.is_unencrypted:
        return CheckResult(
            "webhooks", CheckState.WARN, f"{said}, readable on the way", "use https://"
        )
    return CheckResult("webhooks", CheckState.OK, said)


def check_notifications(told: Deliveries, *, configured: bool) -> Iterator[CheckResult]:
    """Whether notices arrive."""
    since = f", since {told.oldest_waiting_at:%Y-%m-%d %H:%M}" if told.oldest_waiting_at else ""
    said = f"{told.waiting} waiting{since}, {told.given_up} given up in the last 30 days"
    if told.given_up:
        yield CheckResult(
            "notices", CheckState.WARN, said, f"{COMMAND_HINT}, then: waybook webhooks retry ID"
        )
    elif told.waiting and not configured:
        yield CheckResult(
            "notices", CheckState.WARN, f"{said}, and nobody delivers them", "set webhook_url"
        )
    elif configured or told.last_delivered_at:
        yield CheckResult("notices", CheckState.OK, said)
