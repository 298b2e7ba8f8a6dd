"""Endpoints, opened where they are configured: what speaks HTTP is imported only then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

from waybook.research.text_model import TextModel
from waybook.settings import Settings


@asynccontextmanager
async def opened_embedder(settings: Settings) -> AsyncIterator[TextModel | None]:
    """Who makes vectors elsewhere, if somebody does."""
    if settings.embedder != "endpoint":
        yield None
        return
    embeddings = await asyncio.to_thread(import_module, "waybook.endpoints.embeddings")
    endpoint = embeddings.EmbeddingsEndpoint(
        settings.embeddings_url, settings.embeddings_model, settings.embeddings_key
    )
    try:
        yield endpoint
    finally:
        await endpoint.close()
