"""Records when API tokens were last used. The records are written in batches.

The time of a token's last use is precise to the minute.
"""

import asyncio
import logging
from collections import defaultdict
from typing import Final
from uuid import UUID

from waybook.errors import WaybookError
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Ids, load

SQL = load("accounts/last_used")

log = logging.getLogger(__name__)

#: Maximum number of token uses that wait to be written. If it is reached, new uses are dropped.
_MAX_QUEUED: Final = 10_000


class LastUsed:
    def __init__(self) -> None:
        self._waiting: dict[tuple[UUID, str], None] = {}
        self._some = asyncio.Event()

    def record(self, org_id: UUID, token_id: str) -> None:
        """Note that a token was used; `flush` writes it later. Do nothing if the queue is full."""
        if len(self._waiting) < _MAX_QUEUED:
            self._waiting[org_id, token_id] = None
            self._some.set()

    async def wait_pending(self) -> None:
        await self._some.wait()

    async def flush(self, database: Database) -> None:
        waiting, self._waiting = self._waiting, {}
        self._some.clear()
        by_org: dict[UUID, list[str]] = defaultdict(list)
        for org_id, token_id in waiting:
            by_org[org_id].append(token_id)
        for org_id, token_ids in by_org.items():
            try:
                async with database.org_transaction(org_id) as tx:
                    await tx.commit(SQL["tokens_used"](ids=Ids(token_ids)))
            except WaybookError as error:
                log.warning("the use of %d tokens was not noted: %s", len(token_ids), error)
