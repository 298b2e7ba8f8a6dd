"""What an examination finds of webhooks: whether they are in order, and whether they arrive."""

from collections.abc import Iterator

from waybook.endpoints.webhook_settings import WebhookSettings, read_webhook
from waybook.errors import Misconfigured
from waybook.notices.texts import read_texts
from waybook.settings import Settings
from waybook.store.deliveries import Deliveries
from waybook.usecases.findings import Finding, State
from waybook.usecases.secrets import shown

SEE = "waybook webhooks"


def about_webhooks(settings: Settings) -> Iterator[Finding]:
    """Whether the settings of webhooks fit together."""
    try:
        webhook = read_webhook(settings)
        if webhook is not None:
            read_texts(webhook.own_templates())
    except Misconfigured as fault:
        todo = "see docs/how-to/be-told-when-you-are-needed.md"
        yield Finding("webhooks", State.FAIL, fault.message, todo)
        return
    if webhook is None:
        yield Finding("webhooks", State.OK, "off")
    else:
        yield _where(webhook)


def _where(webhook: WebhookSettings) -> Finding:
    place = shown("webhook_url", webhook.url)
    said = f"{len(webhook.events)} events to {place}, as {webhook.format}"
    if webhook.is_open:
        return Finding("webhooks", State.WARN, f"{said}, readable on the way", "use https://")
    return Finding("webhooks", State.OK, said)


def about_notices(told: Deliveries, *, configured: bool) -> Iterator[Finding]:
    """Whether notices arrive."""
    since = f", since {told.oldest_waiting_at:%Y-%m-%d %H:%M}" if told.oldest_waiting_at else ""
    said = f"{told.waiting} waiting{since}, {told.given_up} given up in the last 30 days"
    if told.given_up:
        yield Finding("notices", State.WARN, said, f"{SEE}, then: waybook webhooks retry ID")
    elif told.waiting and not configured:
        yield Finding("notices", State.WARN, f"{said}, and nobody delivers them", "set webhook_url")
    elif configured or told.last_delivered_at:
        yield Finding("notices", State.OK, said)
