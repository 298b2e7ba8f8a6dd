"""Sends webhook messages over HTTP."""

from typing import Final

from waybook.dag.templates.engine import TemplateBudgetExceeded
from waybook.errors import EndpointFailed
from waybook.integrations.config import WebhookSettings
from waybook.integrations.http_client import BoundedHttpClient
from waybook.notifications.delivery import (
    DeliveryOutcome,
    WebhookFormat,
    WebhookMessage,
    signature_headers,
)
from waybook.notifications.message import encode_body, load_templates

SECONDS: Final = 10.0
#: A receiver that has permanently unsubscribed answers with this status.
GONE: Final = 410


class Webhook:
    def __init__(self, configured: WebhookSettings, *, seconds: float = SECONDS) -> None:
        """Create a sender for this webhook. Each delivery may take up to `seconds`."""
        self._format = WebhookFormat(configured.format)
        self._secrets = configured.secrets
        self._texts = load_templates(configured.custom_templates())
        self._exchange = BoundedHttpClient(configured.url, headers={"user-agent": "waybook"})
        self._seconds = seconds

    async def deliver(self, message: WebhookMessage) -> DeliveryOutcome:
        """Try once to deliver a webhook message. A failure is returned, not raised."""
        try:
            content_type, body = encode_body(message, self._format, self._texts)
            headers = signature_headers(
                message.id, int(message.now.timestamp()), body, self._secrets
            )
            headers["content-type"] = content_type
            status = await self._exchange.deliver(body, headers, seconds=self._seconds)
        except EndpointFailed as error:
            return DeliveryOutcome(error.message)
        except TemplateBudgetExceeded as error:
            return DeliveryOutcome(f"the template of {message.event}: {error}")
        if 200 <= status < 300:  # noqa: PLR2004 - what HTTP calls a success
            return DeliveryOutcome(status=status)
        return DeliveryOutcome(f"it answered {status}", status, final=status == GONE)

    async def close(self) -> None:
        await self._exchange.close()
