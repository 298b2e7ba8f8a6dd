"""Retention: what is kept for a while only goes when its time is over."""

import asyncio
from threading import Event

from waybook.settings import Settings
from waybook.store import retention
from waybook.store.retention import RetentionPolicy


async def retain(owner_dsn: str, settings: Settings) -> dict[str, int]:
    """Keep house once; returns how many rows of each table went, and how many partitions.

    Raises:
        Busy: somebody is at work there, and does not come to an end; the next time will do.
        Misconfigured: this is not the owner of the database.
        Unavailable: the database cannot be reached.
    """
    keep = RetentionPolicy(
        calls=settings.keep_calls_days,
        answers=settings.keep_answers_days,
        archived=settings.keep_archived_days,
        sessions=settings.keep_sessions_days,
    )
    stopped = Event()
    try:
        return await asyncio.to_thread(retention.apply_retention, owner_dsn, keep, stopped.is_set)
    finally:
        stopped.set()  # whoever is cancelled leaves the rest to the next time
