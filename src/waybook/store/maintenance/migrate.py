"""Runs schema migrations: numbered `.sql` files, each in its own transaction.

The first file creates the whole schema. Three kinds of databases are refused: those of an earlier
build, those to which a file was applied that was edited later, and those that are too new for this
program. A migration can declare an older migration as compatible: a program that has only the
migrations up to the older one can then still use the new schema.
"""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql
from psycopg.sql import Identifier

from waybook.errors import Busy, DiskFull, Misconfigured, Unavailable
from waybook.store.driver.addresses import bounded_dsn
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement, first_value, load
from waybook.store.maintenance import citus

SQL = load("maintenance/migrate")

_MAX_LOCK_ATTEMPTS = 30
_LOCK_PAUSE_SECONDS = 2.0
#: This line of a migration says which older programs can use the new schema.
OLDEST_COMPATIBLE = re.compile(r"^-- Oldest compatible migration: (\d{4})$", re.MULTILINE)
#: Matches comments, texts, quoted names and function bodies. A semicolon inside them does not end a
#: statement.
_OPAQUE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1", re.DOTALL)
MIN_SERVER_VERSION = 150_000
APP_ROLE = "waybook_app"
#: If row-level security does not apply to the database owner, the owner switches to this role.
MAINTENANCE_ROLE = "waybook_maintenance"


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def title(self) -> str:
        return f"{self.number:04}_{self.name}"

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()

    @property
    def oldest_compatible(self) -> int:
        """Return the number of the newest migration that a program must know to use the schema.

        >>> Migration(7, "notes", "create table note ()").oldest_compatible
        7
        >>> Migration(7, "notes", "-- Oldest compatible migration: 0006").oldest_compatible
        6
        """
        stated = OLDEST_COMPATIBLE.search(self.text)
        return int(stated[1]) if stated else self.number


def bundled_migrations() -> list[Migration]:
    migrations = []
    for file in files("waybook.store").joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            migrations.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(migrations, key=lambda migration: migration.number)


def migrate(dsn: str, *, vectors: bool = True, up_to: int | None = None) -> list[str]:
    """Apply migrations up to the latest, or to `up_to`, and return their names.

    If `vectors` is true and the server has pgvector, the table of pgvector's vectors is created.

    Raises:
        Misconfigured: the server is too old, the database is too new, a migration file was edited,
            or the server refused an SQL statement.
        Unavailable: the database cannot be reached.
    """
    with owner_connection(dsn) as connection:
        ran = _migrate(connection, up_to)
        if vectors:
            if ran:
                connection.execute(_text("add_vector_extension"))
            if _ask(connection, "lacks_vectors"):
                with connection.transaction():
                    connection.execute(_text("lock"))
                    if _ask(connection, "lacks_vectors"):
                        connection.execute(_text("create_vectors"))
        _ensure_maintenance_role(connection)
        citus.let_maintenance_role_log_in(connection)
        return ran


def distribute(dsn: str) -> list[str]:
    with owner_connection(dsn) as connection:
        return citus.distribute(connection)


def list_pending(dsn: str) -> list[str]:
    with owner_connection(dsn) as connection:
        return [migration.title for migration in pending_in(connection)]


def pending_in(connection: psycopg.Connection) -> list[Migration]:
    return _pending(applied_migrations(connection))


def applied_migrations(connection: psycopg.Connection) -> dict[int, str]:
    return _done(connection) or {}


@contextmanager
def owner_connection(dsn: str) -> Iterator[psycopg.Connection]:
    """Open a connection as the database owner, in autocommit mode.

    Raises:
        Misconfigured: the URL is invalid, the server is too old, or the role is not the owner.
        Unavailable: the database cannot be reached.
    """
    address = bounded_dsn(dsn)
    try:
        with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
            if connection.info.server_version < MIN_SERVER_VERSION:
                raise Misconfigured(
                    f"this PostgreSQL is {connection.info.server_version // 10_000}; "
                    "Waybook needs 15 or newer"
                )
            try:
                yield connection
            except psycopg.errors.InsufficientPrivilege as error:
                user = Identifier(connection.info.user).as_string()
                raise Misconfigured(
                    f"the user {user} is not the owner of this database; set owner_url to a URL "
                    f"of the owner. If the server is to run as {user}, an administrator must run: "
                    f"grant {APP_ROLE} to {user}"
                ) from error
    except psycopg.OperationalError as error:
        is_full = isinstance(error, psycopg.errors.DiskFull)
        raise DiskFull if is_full else Unavailable(f"cannot reach the database: {error}") from error


def _migrate(connection: psycopg.Connection, up_to: int | None) -> list[str]:
    if (done := _done(connection)) is not None and not _pending(done):
        return []
    ran = []
    with connection.transaction():
        connection.execute(_text("lock"))
        if not _ask(connection, "role_exists"):
            _create_role(connection)
        _execute_each(connection, _text("create_table"))
    for migration in _pending(_done(connection) or {}):
        if up_to is not None and migration.number > up_to:
            break
        if _run_patiently(connection, migration):
            ran.append(migration.title)
    return ran


def _run_patiently(connection: psycopg.Connection, migration: Migration) -> bool:
    """Apply a migration unless it is already applied, and return whether it was applied now.

    While the migration waits for a table lock, tool calls wait for the migration. So the migration
    stops waiting soon, and tries again later.

    Raises:
        Busy: the tables stayed locked by other transactions.
    """
    for _ in range(_MAX_LOCK_ATTEMPTS):
        try:
            with connection.transaction():
                connection.execute(_text("lock"))
                connection.execute(_text("limit_waiting"))
                if migration.number in (_done(connection) or {}):
                    return False
                apply(connection, migration)
                _execute_each(connection, _text("local_org"))
                done = {
                    "number": migration.number,
                    "name": migration.name,
                    "digest": migration.digest,
                    "oldest_compatible": migration.oldest_compatible,
                }
                connection.execute(_text("record"), done)
                return True
        except psycopg.errors.LockNotAvailable:
            time.sleep(_LOCK_PAUSE_SECONDS)
    raise Busy(
        f"migration {migration.title} waited too long for tables that are in use, perhaps by a "
        "backup; nothing of it was done: wait until the tables are free, then run waybook migrate"
    )


def apply(connection: psycopg.Connection, migration: Migration) -> None:
    """Execute the statements of a migration, in the caller's transaction.

    Raises:
        Misconfigured: the database is distributed, and Citus refuses a statement.
    """
    if citus.is_distributed(connection):
        citus.apply(connection, migration.title, split_statements(migration.text))
    else:
        _execute_each(connection, migration.text.encode())


def _execute_each(connection: psycopg.Connection, text: bytes) -> None:
    """Send each statement to the database separately, as Citus requires."""
    if citus.is_distributed(connection):
        citus.allow_foreign_keys(connection)
    for statement in split_statements(text.decode()):
        connection.execute(statement.encode())


def split_statements(text: str) -> list[str]:
    """Return the SQL statements of a text. Empty statements are left out.

    >>> split_statements("create table a (); insert into a values (';'); -- The end;")
    ['create table a ()', "insert into a values (';')"]
    """
    masked = mask_quoted(text)
    ends = [end.start() for end in re.finditer(";", masked)] + [len(text)]
    starts = [0, *(end + 1 for end in ends)]
    spans = zip(starts, ends, strict=False)
    return [text[start:end].strip() for start, end in spans if masked[start:end].strip()]


def mask_quoted(text: str) -> str:
    return _OPAQUE.sub(lambda match: " " * len(match[0]), text)


def _text(name: str) -> bytes:
    return SQL[name].text.encode()


def _done(connection: psycopg.Connection) -> dict[int, str] | None:
    if not _ask(connection, "exists"):
        return None
    return dict(connection.execute(_text("done")).fetchall())


def _pending(done: dict[int, str]) -> list[Migration]:
    ours = {migration.number: migration for migration in bundled_migrations()}
    _check_same(done.items(), ours)
    unknown = sorted(set(done) - set(ours))
    if unknown:
        raise Misconfigured(
            f"the database was migrated by a newer Waybook (it has number {unknown[-1]}, this "
            f"program knows up to {max(ours)}); upgrade this program"
        )
    return [migration for number, migration in sorted(ours.items()) if number not in done]


def _check_same(applied: Iterable[tuple[int, str]], ours: dict[int, Migration]) -> None:
    """Check that the files of the applied migrations had the same digests as this program's files.

    Raises:
        Misconfigured: an earlier build made the database, or a file was edited.
    """
    for number, digest in applied:
        if number < min(ours):
            raise Misconfigured(
                "this database was made by an earlier build of Waybook, which this version cannot "
                "read; nothing was changed: use a new data directory (--data-dir) or a new database"
            )
        if number in ours and ours[number].digest != digest:
            raise Misconfigured(
                f"migration {ours[number].title} was edited after it ran here; restore "
                "the file, and make a new migration instead"
            )


def _create_role(connection: psycopg.Connection) -> None:
    try:
        connection.execute(_text("create_role"))
    except psycopg.errors.InsufficientPrivilege as error:
        raise Misconfigured(
            f"the role {APP_ROLE} is missing and this user may not create it; as an administrator "
            f"run: create role {APP_ROLE} nologin; grant {APP_ROLE} to the user of the database URL"
        ) from error


def _ensure_maintenance_role(connection: psycopg.Connection) -> None:
    """Create `MAINTENANCE_ROLE` if it is missing, and grant it to the owner if possible."""
    if not _ask(connection, "lacks_maintenance_role"):
        return
    with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
        connection.execute(_text("lock"))
        if not _ask(connection, "has_maintenance_role"):
            # Another database on this server may be creating the role at the same time.
            already = (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation)
            with suppress(*already), connection.transaction():
                connection.execute(_text("create_maintenance_role"))
        if _ask(connection, "must_join"):
            # Since PostgreSQL 16, the creator of a role needs a grant to switch to the role.
            with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(_text("join_maintenance_role"))
        _execute_each(connection, _text("grant_maintenance"))


def _ask(connection: psycopg.Connection, question: str) -> object:
    return first_value(connection.execute(_text(question)).fetchall())


async def attempt(tx: Transaction, *statements: Statement | str) -> Results:
    try:
        return await tx.send(*statements)
    except psycopg.Error as error:
        raise Unavailable(str(error).strip().splitlines()[0]) from error


def check_serving_role(dsn: str, role: str) -> None:
    """Switch to the server's database role once, so that a failure is reported at startup."""
    with owner_connection(dsn) as connection:
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
                is_exempt = _ask(connection, "is_exempt")
        except psycopg.errors.InsufficientPrivilege:
            named = _ask(connection, "name_of_user")
            raise Misconfigured(
                f"the user {named} of the database URL is not a member of {role}, the database "
                f"role of the server; as an administrator run: grant {role} to {named}"
            ) from None
        if is_exempt:
            raise Misconfigured(
                f"the server's database role {role} bypasses row-level security, so orgs would see "
                f"each other's rows; as an administrator run: alter role {role} nosuperuser "
                "nobypassrls"
            )


def check_schema(dsn: str, role: str) -> None:
    """Check that this program can use the schema of the database.

    Raises:
        Misconfigured: migrations are missing, the schema is too new, a file was edited, or the user
            is not a member of the role.
        Unavailable: the database cannot be reached as this user.
    """
    with owner_connection(dsn) as connection:
        # Report missing migrations first, because the first migration creates the role.
        if not _ask(connection, "exists"):
            judge_schema([], bundled_migrations())
    check_serving_role(dsn, role)
    with owner_connection(dsn) as connection, connection.transaction(force_rollback=True):
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        judge_schema(connection.execute(_text("applied")).fetchall(), bundled_migrations())


def judge_schema(applied: list[tuple[Any, ...]], bundled: list[Migration]) -> None:
    """Compare the database's migrations (number, digest, oldest compatible) with the program's."""
    known = {migration.number: migration for migration in bundled}
    done = {number: digest for number, digest, _ in applied}
    _check_same(done.items(), known)
    pending = [migration.title for number, migration in sorted(known.items()) if number not in done]
    if pending:
        raise Misconfigured(
            f"the database lacks {len(pending)} migrations, the first of which is {pending[0]}; "
            "run waybook migrate as the owner of the database, or start with --migrate"
        )
    newest, required = max(known), max(oldest for *_, oldest in applied)
    if required > newest:
        raise Misconfigured(
            "the database was migrated by a newer Waybook, whose schema needs a program that "
            f"knows migration {required}; this program knows up to {newest}: upgrade this program"
        )
