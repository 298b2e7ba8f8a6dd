"""Checks a call's cached credential in the call's first database message.

A revocation thus takes effect immediately in every process, without an extra round trip.
"""

from contextvars import ContextVar
from typing import Final, Self
from uuid import UUID

from waybook.errors import StaleCredential
from waybook.store.driver.queries import Statement


class CredentialCheck:
    __slots__ = ("is_failed", "is_passed", "org_id", "statement")

    def __init__(self, org_id: UUID, statement: Statement) -> None:
        self.org_id = org_id
        self.statement = statement
        self.is_passed = False
        self.is_failed = False

    def deciding(self) -> Self:
        """Return a context manager that records whether the credential was valid."""
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.is_passed = True
        elif issubclass(kind, StaleCredential):
            self.is_failed = True


CURRENT_CHECK: Final[ContextVar[CredentialCheck | None]] = ContextVar("credential", default=None)


def pending_check(org_id: UUID) -> CredentialCheck | None:
    """Return the credential check that the org's next transaction must begin with.

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
