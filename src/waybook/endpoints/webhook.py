"""Whoever is to be told: letters written in their format, signed, and handed over."""

from typing import Final

from waybook.dag.template_budget import Exhausted
from waybook.endpoints.exchange import Exchange
from waybook.endpoints.webhook_settings import WebhookSettings
from waybook.errors import EndpointFailed
from waybook.notices.formats import Format, written
from waybook.notices.letter import Letter, Outcome
from waybook.notices.signature import signed
from waybook.notices.texts import read_texts

SECONDS: Final = 10.0
#: The receiver wants no more of it.
GONE: Final = 410


class Webhook:
    def __init__(self, configured: WebhookSettings, *, seconds: float = SECONDS) -> None:
        """Deliver as it is configured, within so many seconds each.

        Raises:
            Misconfigured: a template is not a good one.
        """
        self._format = Format(configured.format)
        self._secrets = configured.secrets
        self._texts = read_texts(configured.own_templates())
        self._exchange = Exchange(configured.url, headers={"user-agent": "waybook"})
        self._seconds = seconds

    async def deliver(self, letter: Letter) -> Outcome:
        """Try once; whatever happens is an outcome."""
        try:
            content_type, body = written(letter, self._format, self._texts)
            headers = signed(letter.id, int(letter.now.timestamp()), body, self._secrets)
            headers["content-type"] = content_type
            status = await self._exchange.deliver(body, headers, seconds=self._seconds)
        except EndpointFailed as fault:
            return Outcome(fault.message)
        except Exhausted as fault:
            return Outcome(f"the template of {letter.event}: {fault}")
        if 200 <= status < 300:  # noqa: PLR2004 - what HTTP calls a success
            return Outcome(status=status)
        return Outcome(f"it answered {status}", status, final=status == GONE)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._exchange.close()
