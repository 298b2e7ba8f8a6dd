"""Whoever makes vectors for search: the table that comes with us, or somebody elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from waybook.research.embedding import Vector


class EmbeddingModel(Protocol):
    """Makes vectors of many texts. Vectors of one model are never compared with another's."""

    @property
    def name(self) -> str:
        """The name its vectors are kept under."""

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of unit length for each text.

        Raises:
            EndpointFailed: they cannot be had right now.
        """

    async def warm(self) -> None:
        """Get ready, so that the first who asks need not wait."""
