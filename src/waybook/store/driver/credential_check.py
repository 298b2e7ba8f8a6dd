"""Check of a cached credential in the first message that a call sends to the database.

A call whose credential was looked up a moment ago does not look it up again in a message of its
own. Its first message begins with a statement that fails if the credential has changed since, so
that a revocation takes effect at once in every process and costs no round trip.
"""

from contextvars import ContextVar
from typing import Final, Self
from uuid import UUID

from waybook.errors import StaleCredential
from waybook.store.driver.queries import Statement


class CredentialCheck:
    """Check of the credential of one call; it is pending until it has passed or failed."""

    __slots__ = ("is_failed", "is_passed", "org_id", "statement")

    def __init__(self, org_id: UUID, statement: Statement) -> None:
        """Create a pending check; `statement` raises `StaleCredential` in a transaction of the org.

        The first statement that is sent for the org decides the check.
        """
        self.org_id = org_id
        self.statement = statement
        self.is_passed = False
        self.is_failed = False

    def deciding(self) -> Self:
        """Pass the check if the block, which executes its statement, ends; else fail or keep it."""
        return self

    def __enter__(self) -> None:
        """Begin the block that executes the statement."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Pass the check if the block ended without an error; fail it if the statement failed."""
        if kind is None:
            self.is_passed = True
        elif issubclass(kind, StaleCredential):
            self.is_failed = True


#: Check of the call that the current task carries out; None if its credential was looked up.
CURRENT_CHECK: Final[ContextVar[CredentialCheck | None]] = ContextVar("credential", default=None)


def pending_check(org_id: UUID) -> CredentialCheck | None:
    """Return the check that the next transaction of this org must begin with, or None.

    Raises:
        StaleCredential: the check of the current call has failed.
        RuntimeError: the credential of the current call belongs to another org.
    """
    check = CURRENT_CHECK.get()
    if check is None or check.is_passed:
        return None
    if check.is_failed:
        raise StaleCredential
    if check.org_id != org_id:
        raise RuntimeError("the credential of this call belongs to another org")
    return check
