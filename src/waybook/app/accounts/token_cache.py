"""Cache of recently used API tokens.

A cached token is not trusted: the call's first database message checks that the token is still
valid.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from waybook.accounts.tokens import hash_token
from waybook.app.request.caller import Caller
from waybook.core.decision_context import Channel
from waybook.errors import StaleCredential
from waybook.store.accounts import accounts
from waybook.store.accounts.accounts import TokenIdentity
from waybook.store.driver.credential_check import CURRENT_CHECK, CredentialCheck
from waybook.store.driver.queries import Statement

MAX_TOKENS: Final = 10_000


class CachedCaller(NamedTuple):
    """A caller with a cached token. The caller is authenticated only after `check` has passed."""

    caller: Caller
    check: CredentialCheck

    def checking(self) -> "CheckedBlock":
        """Check the token in the first database message that the block sends."""
        return CheckedBlock(self.check)


class CheckedBlock:
    """Context manager that checks a credential and ends the block if the check fails."""

    __slots__ = ("_check", "_previous")

    def __init__(self, check: CredentialCheck) -> None:
        self._check = check

    def __enter__(self) -> None:
        self._previous = CURRENT_CHECK.set(self._check)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        # The next request on this connection must not reuse the check.
        CURRENT_CHECK.reset(self._previous)
        if kind is None or not issubclass(kind, StaleCredential):
            return False
        self._check.is_failed = True
        return True


class _Entry(NamedTuple):
    caller: Caller
    statement: Statement
    recent_until: datetime


class TokenCache:
    def __init__(self, now: Callable[[], datetime | None], most: int = MAX_TOKENS) -> None:
        self._now = now
        self._most = most
        self._entries: OrderedDict[tuple[bytes, Channel], _Entry] = OrderedDict()

    def get(self, secret: str, channel: Channel) -> CachedCaller | None:
        """Return the caller for a cached token, or None if the token must be looked up."""
        entry, now = self._entries.get((hash_token(secret), channel)), self._now()
        if entry is None or now is None or now >= entry.recent_until:
            return None
        return CachedCaller(entry.caller, CredentialCheck(entry.caller.org_id, entry.statement))

    def put(self, secret_hash: bytes, caller: Caller, token: TokenIdentity) -> None:
        key = secret_hash, caller.channel
        statement = accounts.check_statement(token)
        self._entries.pop(key, None)
        self._entries[key] = _Entry(caller, statement, token.recent_until)
        if len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def discard(self, secret_hash: bytes, channel: Channel) -> None:
        self._entries.pop((secret_hash, channel), None)
