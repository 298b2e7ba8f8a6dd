"""Wakes a background loop when an org has work for it."""

import asyncio
import contextlib
from uuid import UUID


class OrgSignal:
    """The orgs that have new work for a background loop of this process.

    >>> signal, org_id = OrgSignal(), UUID(int=1)
    >>> signal.add(org_id)
    >>> signal.is_set(), signal.take(), signal.is_set()
    (True, {UUID('00000000-0000-0000-0000-000000000001')}, False)
    """

    def __init__(self) -> None:
        self._orgs: set[UUID] = set()
        self._event = asyncio.Event()

    def add(self, org_id: UUID) -> None:
        self._orgs.add(org_id)
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def take(self) -> set[UUID]:
        orgs, self._orgs = self._orgs, set()
        self._event.clear()
        return orgs

    async def wait(self, at_most_seconds: float) -> set[UUID]:
        """Wait until an org is added or the time is over. Return the orgs and remove them."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), at_most_seconds)
        return self.take()
