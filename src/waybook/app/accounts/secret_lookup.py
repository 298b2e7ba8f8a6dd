"""Lookup of the row of a secret: an API token, a web session or a link."""

from typing import Any, Protocol
from uuid import UUID

from waybook.accounts.tokens import hash_token
from waybook.core.org_codes import org_in
from waybook.store.driver.database import Database
from waybook.store.driver.queries import Statement, first_value


class SecretStatements(Protocol):
    """Statements that set the transaction's org to that of a secret, and then select its row."""

    def __call__(self, *, is_org_known: bool) -> list[Statement]:
        """Return the statements; if the org is known, they read rows of this org only."""


async def find_by_secret(
    database: Database, secret: str, statements: SecretStatements
) -> list[Any]:
    """Return the row of a secret, or no row.

    A secret with the code of its org is looked up in this org, on one node of a cluster. For other
    secrets, a cluster asks every node for the org, and the row is read afterwards.
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
