"""When tokens were last used: telemetry, noted behind the calls, to the minute."""

import asyncio
import logging
from collections import defaultdict
from typing import Final
from uuid import UUID

from waybook.errors import WaybookError
from waybook.store import identities
from waybook.store.database import Database

log = logging.getLogger(__name__)

#: How many uses may wait to be written; what is beyond is noted at the next use.
MAX_QUEUED: Final = 10_000


class LastUsed:
    def __init__(self) -> None:
        """Nothing was used yet."""
        self._waiting: dict[tuple[UUID, str], None] = {}
        self._some = asyncio.Event()

    def record(self, org_id: UUID, token_id: str) -> None:
        """Remember that a token was used; never wait, never fail."""
        if len(self._waiting) < MAX_QUEUED:
            self._waiting[org_id, token_id] = None
            self._some.set()

    async def wait_pending(self) -> None:
        """Wait until there is something to write."""
        await self._some.wait()

    async def flush(self, database: Database) -> None:
        """Write what waits, org by org."""
        waiting, self._waiting = self._waiting, {}
        self._some.clear()
        by_org: dict[UUID, list[str]] = defaultdict(list)
        for org_id, token_id in waiting:
            by_org[org_id].append(token_id)
        for org_id, token_ids in by_org.items():
            try:
                async with database.org_transaction(org_id) as tx:
                    await tx.commit(identities.used_statement(token_ids))
            except WaybookError as error:
                log.warning("the use of %d tokens was not noted: %s", len(token_ids), error)
