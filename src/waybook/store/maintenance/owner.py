"""Transactions of the database owner within one org, and the chain of erasure records.

Decision 0045 describes the three guards that keep such a transaction from changing other orgs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from waybook.errors import Busy, Misconfigured, Refused
from waybook.json_values import rfc3339
from waybook.store.audit import GENESIS, ChainHead, with_length
from waybook.store.driver.queries import Query, first_column, load
from waybook.store.maintenance.citus import is_distributed, lacks_maintenance_login
from waybook.store.maintenance.migrate import MAINTENANCE_ROLE, owner_connection

Rows: TypeAlias = list[Any]
LOCK_TIMEOUT = "30s"


class OwnerTransaction:
    """A transaction of the database owner. It is confined to one org if `org_id` is set."""

    def __init__(self, connection: psycopg.Connection, org_id: UUID | None = None) -> None:
        self._connection = connection
        self._org_id = org_id

    def fetch(self, query: Query, table: str = "", column: str = "", **values: object) -> Rows:
        statement = self._statement(query, table, column)
        cursor = self._connection.cursor(row_factory=namedtuple_row)
        cursor.execute(statement, self._named(query, values))
        if not cursor.description:
            return []
        return [query.make_row(row) if query.make_row else row for row in cursor]

    def change(self, query: Query, table: str = "", column: str = "", **values: object) -> int:
        """Run an UPDATE or DELETE that returns `org_id`, and return the number of affected rows.

        Raises:
            Refused: rows of another org were affected; this rolls back the transaction.
        """
        statement = self._statement(query, table, column)
        counted = sql.SQL(SQL["rows_by_org"].text).format(statement=statement)
        touched: dict[UUID | None, int] = dict(
            self._connection.execute(counted, self._named(query, values)).fetchall()
        )
        own = touched.pop(self._org_id, 0)
        if touched:
            raise _reached_others(sum(touched.values()), table or query.name)
        return own

    def execute_ddl(self, query: Query, table: str, **literals: str) -> None:
        sql_literals = {name: sql.Literal(value) for name, value in literals.items()}
        text = sql.SQL(query.text).format(table=sql.Identifier(table), **sql_literals)
        self._connection.execute(text)

    def execute_many(self, query: Query, every: list[Mapping[str, object]]) -> None:
        """Run a query once per mapping of values. Each time, it must change exactly one row."""
        if not every:
            return
        with self._connection.cursor() as cursor:
            cursor.executemany(
                query.text.encode(), [self._named(query, values) for values in every]
            )
            if cursor.rowcount != len(every):
                raise _reached_others(cursor.rowcount - len(every), query.name)

    def _statement(self, query: Query, table: str, column: str) -> sql.Composed:
        names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
        # Formatting the SQL is safe: the text comes from a file, and the driver quotes the names.
        return sql.SQL(query.text).format(**names)

    def _named(self, query: Query, values: Mapping[str, object]) -> Mapping[str, object]:
        if self._org_id is None and "org_id" in query.places:
            raise ValueError(f"{query.name} needs an org, but the transaction has none")
        return {**values, "org_id": self._org_id}


def _reached_others(rows: int, where: str) -> Refused:
    return Refused(
        f"this would have changed {rows:+} rows of other orgs ({where}), which is a fault of "
        "Waybook: please report it. Everything was rolled back; nothing was changed"
    )


@contextmanager
def org_transaction(connection: psycopg.Connection, org_id: UUID) -> Iterator[OwnerTransaction]:
    """Open a transaction confined to this org. It is committed at the end of the block.

    Raises:
        Busy: a concurrent call did not release its locks in time.
        Misconfigured: the role is not the owner, or row-level security cannot be enforced.
    """
    with _transaction(connection, LOCK_TIMEOUT):
        confine(connection)
        connection.execute(f"set local app.org_id = '{org_id}'".encode())
        yield OwnerTransaction(connection, org_id)


@contextmanager
def directory_transaction(
    connection: psycopg.Connection, lock_timeout: str = LOCK_TIMEOUT
) -> Iterator[OwnerTransaction]:
    """Open a transaction that sees the list of orgs, but no other rows."""
    with _transaction(connection, lock_timeout):
        connection.execute(b"set local app.sweep = 'on'")
        yield OwnerTransaction(connection)


@contextmanager
def _transaction(connection: psycopg.Connection, lock_timeout: str) -> Iterator[None]:
    try:
        with connection.transaction():
            connection.execute(f"set local lock_timeout = '{lock_timeout}'".encode())
            yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        raise Busy("the org is in use; nothing was erased, try again") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            "only the owner of the database may do this; set owner_url to a URL of the owner"
        ) from error


@contextmanager
def owner_transaction(dsn: str, org_id: UUID) -> Iterator[OwnerTransaction]:
    with owner_connection(dsn) as connection, org_transaction(connection, org_id) as owner:
        yield owner


class Tombstone(NamedTuple):
    """A record of an audit chain that an erasure deleted, or whose hashes were recomputed."""

    subject: str
    subject_id: str
    entries: int
    seal_before: bytes
    seal_after: bytes | None = None


class Erasure(NamedTuple):
    number: int
    at: datetime
    by: str
    what: str
    who: str | None
    #: Number of changed rows by table, as JSON text.
    counts: str
    hash: bytes = b""
    tombstones: tuple[Tombstone, ...] = ()


class OwnerRole(NamedTuple):
    """The database role in the owner's URL, and whether row-level security applies to it."""

    name: str
    superuser: bool
    bypasses: bool
    #: Whether the maintenance role exists, to which the owner can switch.
    can_step_down: bool
    refusal: str | None = None

    @property
    def is_exempt(self) -> bool:
        return self.superuser or self.bypasses


SQL = load("maintenance/owner")


def seal_of(erasure: Erasure, previous: bytes) -> bytes:
    fields: list[bytes | str] = [str(erasure.number), rfc3339(erasure.at), erasure.by, erasure.what]
    fields += [erasure.who if erasure.who is not None else "\x00", erasure.counts]
    for stone in sorted(erasure.tombstones, key=lambda stone: stone.subject_id):
        fields += [stone.subject, stone.subject_id, str(stone.entries), stone.seal_before]
        fields.append(stone.seal_after if stone.seal_after is not None else "\x00")
    return sha256(previous + b"".join(map(with_length, fields))).digest()


def first_broken(erasures: Sequence[Erasure], head: ChainHead | None) -> tuple[int, str] | None:
    """Return the number of the first invalid erasure record and the reason, or None."""
    previous = GENESIS
    for expected, erasure in enumerate(erasures, start=1):
        if erasure.number != expected:
            return expected, f"erasure {expected} is missing; the next one is {erasure.number}"
        if seal_of(erasure, previous) != erasure.hash:
            reason = f"erasure {expected} does not match its seal: it or a tombstone was changed"
            return expected, reason
        previous = erasure.hash
    return _wrong_end(len(erasures), previous, head) if head is not None else None


def _wrong_end(count: int, last: bytes, head: ChainHead) -> tuple[int, str] | None:
    if count < head.seq:
        return count + 1, f"erasure {count + 1} is missing: {head.seq} were written"
    if count > head.seq:
        return head.seq + 1, f"erasure {head.seq + 1} was added from outside: {head.seq} are known"
    if last != head.hash:
        return count, f"erasure {count} is not the one that was written last: its seal is another"
    return None


def read_erasures(
    erasures: Iterable[Sequence[Any]], tombstones: Iterable[Sequence[Any]]
) -> list[Erasure]:
    stones = {
        number: tuple(Tombstone(*row[1:]) for row in rows)
        for number, rows in groupby(tombstones, key=itemgetter(0))
    }
    return [Erasure._make((*row, stones.pop(row[0], ()))) for row in erasures]


def read_head(rows: Sequence[tuple[int, bytes | None]]) -> ChainHead | None:
    return ChainHead(rows[0][0], rows[0][1] or GENESIS) if rows else None


def examine_owner(dsn: str) -> OwnerRole:
    with owner_connection(dsn) as connection:
        role = _read_role(connection)
        try:
            with connection.transaction(force_rollback=True):
                confine(connection)
        except Misconfigured as error:
            return role._replace(refusal=error.message)
        return role


def confine(connection: psycopg.Connection) -> None:
    """Enforce row-level security for this transaction, with another database role if needed.

    Raises:
        Misconfigured: no suitable role is available; the message has the SQL that fixes this.
    """
    role = _read_role(connection)
    if role.is_exempt:
        _step_down(connection, role)
    if tables := _names(connection, SQL["exempt"]):
        raise Misconfigured(
            f"row-level security is not in force on {', '.join(tables)} for the owner of the "
            "database, so a change of one org could reach others; nothing was changed. For details "
            "run: waybook doctor"
        )


def _step_down(connection: psycopg.Connection, role: OwnerRole) -> None:
    on_cluster = is_distributed(connection)
    create = f"create role {MAINTENANCE_ROLE} {'login' if on_cluster else 'nologin'}; "
    let_in = f"alter role {MAINTENANCE_ROLE} login; " if on_cluster else ""
    prepare = let_in if role.can_step_down else create
    refusal = (
        f"the owner {role.name} bypasses row-level security and cannot step down to "
        f"{MAINTENANCE_ROLE}, so a change of one org could reach others; nothing was changed. "
        f"As an administrator run: {prepare}grant {MAINTENANCE_ROLE} to {role.name}; "
        "and then: waybook migrate"
    )
    try:
        with connection.transaction():
            connection.execute(SQL["step_down"].text.encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue):
        raise Misconfigured(refusal) from None
    if on_cluster and lacks_maintenance_login(connection):
        raise Misconfigured(
            f"the role {MAINTENANCE_ROLE} cannot log in to the nodes of the cluster; nothing was "
            f"changed. As an administrator run: {let_in}and then: waybook migrate"
        )
    if tables := _names(connection, SQL["not_granted"]):
        raise Misconfigured(
            f"the role {MAINTENANCE_ROLE} may not change {', '.join(tables)}; nothing was "
            "changed. Run as the owner: waybook migrate"
        )


def _read_role(connection: psycopg.Connection) -> OwnerRole:
    (role,) = connection.execute(SQL["role"].text.encode())
    return OwnerRole(*role)


def _names(connection: psycopg.Connection, query: Query) -> list[str]:
    return first_column(connection.execute(query.text.encode()))
