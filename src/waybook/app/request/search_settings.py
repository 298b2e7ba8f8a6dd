"""Settings of semantic search: the backend, and its memory limit."""

from waybook.app.request.services import SearchBackend
from waybook.app.request.vector_cache import MEGABYTE
from waybook.errors import Misconfigured
from waybook.research.embedding import EmbeddingModel
from waybook.settings import Settings
from waybook.store.research.artifacts import Backend

AUTO = "auto"


def check_search(settings: Settings) -> None:
    """Raise `Misconfigured` if the search settings are invalid or contradict other settings."""
    if settings.search_vectors not in {AUTO, *Backend}:
        raise Misconfigured(
            f"search_vectors cannot be {settings.search_vectors!r}: use auto, portable or pgvector"
        )
    if settings.search_vectors == Backend.PGVECTOR and not settings.database_url:
        raise Misconfigured(
            "search_vectors is pgvector, which the embedded PostgreSQL does not use: its build may "
            "not run on this processor. Set database_url to a server of your own, or "
            "search_vectors to auto"
        )
    if settings.search_memory_mb < 1:
        raise Misconfigured("search_memory_mb must be at least 1")


def open_library(settings: Settings, embedder: EmbeddingModel | None) -> SearchBackend:
    max_bytes = settings.search_memory_mb * MEGABYTE
    return SearchBackend(embedder, backend=settings.search_vectors, max_bytes=max_bytes)
