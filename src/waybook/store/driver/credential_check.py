"""Checks a call's cached credential as part of the call's first database message.

A credential that was looked up a moment ago is not looked up again in a message of its own.
Instead, the call's first message begins with a statement that fails if the credential has changed.
A revocation thus takes effect at once in every process, without an extra round trip.
"""

from contextvars import ContextVar
from typing import Final, Self
from uuid import UUID

from waybook.errors import StaleCredential
from waybook.store.driver.queries import Statement


class CredentialCheck:
    """Check of one call's credential; pending until it has passed or failed."""

    __slots__ = ("is_failed", "is_passed", "org_id", "statement")

    def __init__(self, org_id: UUID, statement: Statement) -> None:
        """Create a pending check; `statement` fails with `StaleCredential` if it does not pass.

        The statement is sent in the first message for the org, which decides the check.
        """
        self.org_id = org_id
        self.statement = statement
        self.is_passed = False
        self.is_failed = False

    def deciding(self) -> Self:
        """Return a context manager for sending the statement; it records the outcome."""
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Record the outcome: passed if there was no error, failed on `StaleCredential`."""
        if kind is None:
            self.is_passed = True
        elif issubclass(kind, StaleCredential):
            self.is_failed = True


#: Check of the call that the current task executes; None if its credential was just looked up.
CURRENT_CHECK: Final[ContextVar[CredentialCheck | None]] = ContextVar("credential", default=None)


def pending_check(org_id: UUID) -> CredentialCheck | None:
    """Return the check with which the org's next transaction must begin, or None.

    Raises:
        StaleCredential: the current call's check has failed.
        RuntimeError: the current call's credential belongs to another org.
    """
    check = CURRENT_CHECK.get()
    if check is None or check.is_passed:
        return None
    if check.is_failed:
        raise StaleCredential
    if check.org_id != org_id:
        raise RuntimeError("the credential of this call belongs to another org")
    return check
