"""Check of the settings of semantic search."""

from waybook.errors import Misconfigured
from waybook.research.embedding_model import Backend
from waybook.settings import Settings

AUTO = "auto"


def check_search(settings: Settings) -> None:
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
