"""Executes the statements of a migration, each in its own message, as Citus requires."""

import re
from importlib.resources import files

import psycopg

from waybook.errors import Misconfigured
from waybook.store.maintenance.cluster_tables import (
    allow_foreign_keys,
    distribute_others,
    is_distributed,
)

#: Comments, texts, quoted names and function bodies, in which a semicolon does not end a statement.
_OPAQUE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|(\$\w*\$).*?\1", re.DOTALL)
_REFUSALS = (psycopg.errors.FeatureNotSupported, psycopg.errors.InternalError_)


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


def execute_each(connection: psycopg.Connection, text: bytes) -> None:
    if is_distributed(connection):
        allow_foreign_keys(connection)
    for statement in split_statements(text.decode()):
        connection.execute(statement.encode())


def apply(connection: psycopg.Connection, title: str, text: str) -> None:
    """Execute the statements of a migration, in the caller's transaction.

    Raises:
        Misconfigured: the database is distributed, and Citus refuses a statement.
    """
    if not is_distributed(connection):
        execute_each(connection, text.encode())
        return
    allow_foreign_keys(connection)
    try:
        for statement in split_statements(cluster_text(title) or text):
            connection.execute(statement.encode())
            distribute_others(connection)
    except _REFUSALS as error:
        reason = str(error).splitlines()[0]
        raise Misconfigured(
            f"migration {title} cannot run on a distributed database ({reason}), and nothing of it "
            "was done; back up with the previous version, restore the backup into a new database "
            "that is not distributed, and run waybook migrate --distribute there"
        ) from error


def cluster_text(title: str) -> str | None:
    file = files("waybook.store").joinpath("migrations", "cluster", f"{title}.sql")
    return file.read_text(encoding="utf-8") if file.is_file() else None
