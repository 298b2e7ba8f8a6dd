"""Looks up the row that a secret belongs to: an API token, a web session or a link."""

from functools import partial
from typing import Any, Protocol
from uuid import UUID

from waybook.accounts.tokens import hash_token
from waybook.core.org_codes import org_in
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement, first_value


class SecretStatements(Protocol):
    """Builds the SQL statements that find the row of a secret."""

    def __call__(self, *, is_org_known: bool) -> list[Statement]:
        """Return the statements. If the org is known, they read only rows of that org."""


async def find_by_secret(
    database: Database, secret: str, statements: SecretStatements
) -> list[Any]:
    """Return the row that a secret belongs to, or no row.

    Concurrent lookups of the same secret are shared, because many agents may use one token.
    """
    find = partial(_find, database, secret, statements)
    return await database.lookups.read((hash_token(secret), statements), find)


async def _find(database: Database, secret: str, statements: SecretStatements) -> list[Any]:
    """Look up a secret.

    If the secret contains the code of its org, only that org is searched.
    """
    secret_hash, org_id = hash_token(secret), org_in(secret)
    org_rows, rows = await database.read_by_secret(
        secret_hash, *statements(is_org_known=org_id is not None), org_id=org_id
    )
    if org_rows and not rows and org_id is None and await database.is_cluster():
        _, rows = await database.read_by_secret(
            secret_hash, *statements(is_org_known=True), org_id=UUID(first_value(org_rows))
        )
    return rows
