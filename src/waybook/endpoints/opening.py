"""Endpoints, opened where they are configured: what speaks HTTP is imported only then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module

from waybook.endpoints.question import Model
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


@asynccontextmanager
async def opened_model(settings: Settings) -> AsyncIterator[Model | None]:
    """The model that may be asked from here, if there is one."""
    if settings.model_url is None:
        yield None
        return
    asking = await asyncio.to_thread(import_module, "waybook.endpoints.asking")
    endpoint = asking.ModelEndpoint(
        url=settings.model_url,
        api=settings.model_api,
        model=settings.model,
        key=settings.model_key,
    )
    try:
        yield endpoint
    finally:
        await endpoint.close()
