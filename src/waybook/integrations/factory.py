"""Endpoints, opened where they are configured: what speaks HTTP is imported only then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Protocol

from waybook.integrations.config import WebhookSettings, issuer_from_settings
from waybook.integrations.llm_messages import Model
from waybook.integrations.oidc_login import IssuerClient
from waybook.notifications.message import DeliveryOutcome, WebhookMessage, WebhookSender
from waybook.research.embedding import EmbeddingModel
from waybook.settings import Settings


@asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncIterator[EmbeddingModel | None]:
    """Who makes vectors elsewhere, if somebody does."""
    if settings.embedder != "endpoint":
        yield None
        return
    embeddings = await asyncio.to_thread(import_module, "waybook.integrations.embeddings")
    endpoint = embeddings.EmbeddingsClient(
        settings.embeddings_url, settings.embeddings_model, settings.embeddings_key
    )
    try:
        yield endpoint
    finally:
        await endpoint.close()


@asynccontextmanager
async def open_model(settings: Settings) -> AsyncIterator[Model | None]:
    """The model that may be asked from here, if there is one."""
    if settings.model_url is None:
        yield None
        return
    asking = await asyncio.to_thread(import_module, "waybook.integrations.llm_client")
    endpoint = asking.ModelClient(
        url=settings.model_url,
        api=settings.model_api,
        model=settings.model,
        key=settings.model_key,
    )
    try:
        yield endpoint
    finally:
        await endpoint.close()


@asynccontextmanager
async def open_issuer(settings: Settings) -> AsyncIterator[IssuerClient | None]:
    """Whose sign-in counts here, if somebody's does."""
    configured = issuer_from_settings(settings)
    if configured is None or not settings.requires_auth:
        yield None
        return
    module = await asyncio.to_thread(import_module, "waybook.integrations.oidc_issuer")
    issuer = module.Issuer(configured)
    try:
        yield issuer
    finally:
        await issuer.close()


class ClosableSender(WebhookSender, Protocol):
    """A postman who has connections to let go of."""

    async def close(self) -> None:
        """Let go of the connections."""


class LazyWebhookSender:
    """A webhook that is loaded when it is needed."""

    def __init__(self, configured: WebhookSettings) -> None:
        self._configured = configured
        self._loaded: ClosableSender | None = None

    async def warm(self) -> ClosableSender:
        """Load it now.

        Raises:
            Misconfigured: its templates are not good ones.
        """
        if self._loaded is None:
            module = await asyncio.to_thread(import_module, "waybook.integrations.webhooks")
            webhook: ClosableSender = module.Webhook(self._configured)
            self._loaded = webhook
        return self._loaded

    async def deliver(self, letter: WebhookMessage) -> DeliveryOutcome:
        """Try once."""
        return await (await self.warm()).deliver(letter)

    async def close(self) -> None:
        """Let go of the connections."""
        if self._loaded is not None:
            await self._loaded.close()


@asynccontextmanager
async def open_webhook_sender(
    configured: WebhookSettings | None,
) -> AsyncIterator[LazyWebhookSender | None]:
    """Who delivers notices, if somebody is to be told."""
    if configured is None:
        yield None
        return
    sender = LazyWebhookSender(configured)
    try:
        yield sender
    finally:
        await sender.close()
