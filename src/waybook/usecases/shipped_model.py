"""The table of words that comes with us, loaded when it is first needed, off the event loop."""

import asyncio
from collections.abc import Sequence

from waybook.research.embedding import StaticEmbedder, Vector, builtin_embedder


class BuiltinEmbeddingModel:
    """Needs nothing and nobody; the same text gives the same vector everywhere."""

    name = StaticEmbedder.model

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, made in a thread."""
        return await asyncio.to_thread(_all, texts)

    async def warm(self) -> None:
        """Load the table."""
        await asyncio.to_thread(builtin_embedder)


def _all(texts: Sequence[str]) -> list[Vector]:
    return [*map(builtin_embedder().embed, texts)]
