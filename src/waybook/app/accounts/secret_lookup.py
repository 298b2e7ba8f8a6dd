"""Looks up the row that a secret belongs to: an API token, a web session or a link."""

from typing import Any, Protocol
from uuid import UUID

from waybook.accounts.tokens import hash_token
from waybook.core.org_codes import org_in
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement, first_value


class SecretStatements(Protocol):
    """Statements that set the transaction's org to that of a secret, then select its row."""

    def __call__(self, *, is_org_known: bool) -> list[Statement]:
        """Return the statements; if the org is known, they read only rows of this org."""


async def find_by_secret(
    database: Database, secret: str, statements: SecretStatements
) -> list[Any]:
    """Return the row that a secret belongs to, or no row.

    A secret that contains the code of its org is looked up there, on one node of a cluster. For
    other secrets, a cluster first asks every node for the org.
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
