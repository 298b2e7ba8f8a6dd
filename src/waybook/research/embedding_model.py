"""Interface of embedding models, and the places where vectors are stored."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, TypeAlias

#: A vector of unit length, so that the nearest vectors have the greatest dot product.
Vector: TypeAlias = tuple[float, ...]


class EmbeddingModel(Protocol):
    """Embedding model for many texts. Vectors of different models are never compared."""

    @property
    def name(self) -> str:
        """Name under which vectors of this model are stored."""

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return an embedding for each text.

        Raises:
            EndpointFailed: the embedding endpoint did not return the vectors.
        """

    async def warm(self) -> None:
        """Load the embedding model, so that the first request does not wait for it."""


class Backend(StrEnum):
    #: Vectors are stored in an ordinary table and ranked in this process.
    PORTABLE = "portable"
    #: Vectors are stored and ranked by the pgvector extension.
    PGVECTOR = "pgvector"
