"""Create clients for the configured endpoints. Import HTTP modules only when they are needed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any, Final

from waybook.errors import Misconfigured
from waybook.integrations.config import WebhookSettings, issuer_from_settings
from waybook.integrations.llm_messages import Model
from waybook.integrations.oidc_login import IssuerClient
from waybook.notifications.delivery import DeliveryOutcome, WebhookMessage, WebhookSender
from waybook.research.embedding import EmbeddingModel
from waybook.settings import Settings
from waybook.tracing import TRACING

_TRACE_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@asynccontextmanager
async def _open_client(
    module: str, name: str, configured: object, *arguments: object
) -> AsyncIterator[Any]:
    """Import a client class and yield an instance of it, or None if it is not configured."""
    if configured is None:
        yield None
        return
    loaded = await asyncio.to_thread(import_module, f"waybook.integrations.{module}")
    client = getattr(loaded, name)(configured, *arguments)
    try:
        yield client
    finally:
        await client.close()


def open_embedder(settings: Settings) -> AbstractAsyncContextManager[EmbeddingModel | None]:
    model, key = settings.embeddings_model, settings.embeddings_key
    return _open_client("embeddings", "EmbeddingsClient", settings.embeddings_url, model, key)


def open_model(settings: Settings) -> AbstractAsyncContextManager[Model | None]:
    model, key = settings.model, settings.model_key
    return _open_client("llm_client", "ModelClient", settings.model_url, model, key)


def open_issuer(settings: Settings) -> AbstractAsyncContextManager[IssuerClient | None]:
    configured = issuer_from_settings(settings)
    return _open_client("oidc_issuer", "Issuer", configured if settings.requires_auth else None)


class _LazyWebhookSender:
    """Webhook sender that imports its module on first use."""

    def __init__(self, configured: WebhookSettings) -> None:
        self._configured = configured
        self._loaded: Any = None

    async def warm(self) -> WebhookSender:
        if self._loaded is None:
            module = await asyncio.to_thread(import_module, "waybook.integrations.webhooks")
            self._loaded = module.Webhook(self._configured)
        sender: WebhookSender = self._loaded
        return sender

    async def deliver(self, message: WebhookMessage) -> DeliveryOutcome:
        return await (await self.warm()).deliver(message)

    async def close(self) -> None:
        if self._loaded is not None:
            await self._loaded.close()


@asynccontextmanager
async def open_webhook_sender(
    configured: WebhookSettings | None,
) -> AsyncIterator[_LazyWebhookSender | None]:
    if configured is None:
        yield None
        return
    sender = _LazyWebhookSender(configured)
    try:
        yield sender
    finally:
        await sender.close()


def _trace_exporter(environment: Mapping[str, str]) -> str | None:
    """Return the name of the trace exporter, or None if no exporter is configured.

    >>> _trace_exporter({}) or _trace_exporter({"OTEL_TRACES_EXPORTER": "none"}) or "off"
    'off'
    >>> _trace_exporter({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"})
    'otlp'
    >>> _trace_exporter({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}) or "off"
    'off'
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    has_endpoint = any(environment.get(name) for name in _TRACE_ENDPOINTS)
    name = environment.get("OTEL_TRACES_EXPORTER") or ("otlp" if has_endpoint else "none")
    return None if name == "none" else name


@asynccontextmanager
async def open_tracing(environment: Mapping[str, str]) -> AsyncIterator[None]:
    """Trace the calls within the block, if OpenTelemetry's environment variables say so."""
    exporter = _trace_exporter(environment)
    if exporter is None:
        yield
        return
    try:
        module = await asyncio.to_thread(import_module, "waybook.integrations.open_telemetry")
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"the OTEL_ variables turn tracing on, but {error.name} is missing: install "
            "waybook[otel], or set OTEL_TRACES_EXPORTER to none"
        ) from error
    export = module.TraceExport(exporter)
    TRACING.tracer = export.tracer
    try:
        yield
    finally:
        TRACING.tracer = None
        await asyncio.to_thread(export.close)
