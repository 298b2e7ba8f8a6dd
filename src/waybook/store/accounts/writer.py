"""Writes orgs with their audit entries, and the times at which tokens were last used.

The time of a token's last use is written after the call, with a precision of one minute.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from waybook.accounts.model import Org
from waybook.core.changes import Entity, Entry
from waybook.errors import WaybookError
from waybook.json_values import Json
from waybook.store.accounts import accounts
from waybook.store.audit import Patches, WriteContext, audit_statements, sealed_entries
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Query, Statement, Value, load

SQL = load("accounts/writer")


def statements(
    org: Org, entries: tuple[Entry, ...], write_context: WriteContext
) -> list[Statement]:
    patches = Patches(change for entry in entries for change in entry.changes)
    sealed = sealed_entries(entries, ("org", org.id), write_context)
    return [
        SQL["update_org"](
            name=org.name,
            review_policy=org.review_policy,
            audit_seq=sealed[-1].seq,
            audit_hash=sealed[-1].hash,
            old_seq=write_context.head.seq,
        ),
        *_users(patches),
        *_tokens(patches),
        *audit_statements(sealed),
    ]


def _users(patches: Patches) -> Iterator[Statement]:
    for patch in patches.inserts[Entity.USER]:
        yield _filled(SQL["insert_user"], patch.id, patch.values)
    for patch in patches.updates[Entity.USER]:
        if "disabled_at" in patch.values:
            yield _filled(SQL["enable_user"], patch.id, patch.values)
        if "scopes" in patch.values:
            yield _filled(SQL["set_user_scopes"], patch.id, patch.values)


def _tokens(patches: Patches) -> Iterator[Statement]:
    for patch in patches.inserts[Entity.TOKEN]:
        yield _filled(SQL["insert_token"], patch.id, patch.values)
    for patch in patches.updates[Entity.TOKEN]:
        yield _filled(SQL["revoke_token"], patch.id, patch.values)


def _filled(query: Query, row_id: str, values: dict[str, Json]) -> Statement:
    parameters: dict[str, Value] = {
        name: _to_sql_value(values[name]) for name in query.places if name != "id"
    }
    return query(id=row_id, **parameters)


def _to_sql_value(value: Json) -> Value:
    """Return a scalar unchanged, and a list as a PostgreSQL array literal."""
    if isinstance(value, list):
        return f"{{{','.join(map(str, value))}}}"
    if isinstance(value, dict):
        raise TypeError("a column was given a structure")
    return value


log = logging.getLogger(__name__)

#: Maximum number of token uses waiting to be written. A use that does not fit is dropped, because
#: the token's next use will be recorded instead.
MAX_QUEUED: Final = 10_000


class LastUsed:
    def __init__(self) -> None:
        self._waiting: dict[tuple[UUID, str], None] = {}
        self._some = asyncio.Event()

    def record(self, org_id: UUID, token_id: str) -> None:
        """Queue the use of a token for writing. This never waits and never fails."""
        if len(self._waiting) < MAX_QUEUED:
            self._waiting[org_id, token_id] = None
            self._some.set()

    async def wait_pending(self) -> None:
        await self._some.wait()

    async def flush(self, database: Database) -> None:
        """Write the queued token uses, in one transaction per org."""
        waiting, self._waiting = self._waiting, {}
        self._some.clear()
        by_org: dict[UUID, list[str]] = defaultdict(list)
        for org_id, token_id in waiting:
            by_org[org_id].append(token_id)
        for org_id, token_ids in by_org.items():
            try:
                async with database.org_transaction(org_id) as tx:
                    await tx.commit(accounts.used_statement(token_ids))
            except WaybookError as error:
                log.warning("the use of %d tokens was not noted: %s", len(token_ids), error)
