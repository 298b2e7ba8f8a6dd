"""Signals, health and counts that background loops share with the calls of a process."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

from waybook.errors import WaybookError
from waybook.redaction import redact

MAX_FAILURES_IN_A_ROW = 5
_MAX_ERROR_LENGTH = 200


@dataclass(slots=True)
class LoopHealth:
    """Number of consecutive failures of each background loop. A success resets the number."""

    failures: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def note_failure(self, loop: str, error: Exception) -> int:
        self.failures[loop] = self.failures.get(loop, 0) + 1
        # Keep only the messages of Waybook's own errors. Other messages may contain data of an org,
        # so only the log contains them.
        message = str(error) if isinstance(error, WaybookError) else ""
        message = redact(" ".join(message.split()))[:_MAX_ERROR_LENGTH]
        self.errors[loop] = (
            f"{type(error).__name__}: {message}" if message else type(error).__name__
        )
        return self.failures[loop]

    def note_success(self, loop: str) -> None:
        self.failures.pop(loop, None)
        self.errors.pop(loop, None)


class OrgSignal:
    """The orgs that have new work for a background loop of this process.

    >>> signal, org_id = OrgSignal(), UUID(int=1)
    >>> signal.add(org_id)
    >>> signal.is_set(), signal.take(), signal.is_set()
    (True, {UUID('00000000-0000-0000-0000-000000000001')}, False)
    """

    def __init__(self) -> None:
        self._orgs: set[UUID] = set()
        self._event = asyncio.Event()

    def add(self, org_id: UUID) -> None:
        self._orgs.add(org_id)
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def take(self) -> set[UUID]:
        orgs, self._orgs = self._orgs, set()
        self._event.clear()
        return orgs

    async def wait(self, at_most_seconds: float) -> set[UUID]:
        """Wait until an org is added or the time is over. Return the orgs and remove them."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), at_most_seconds)
        return self.take()


_CountT = TypeVar("_CountT", bound=tuple[int, ...])


class CountsByOrg(Generic[_CountT]):
    """Counts of open or stalled work by org. A background loop updates them for the metrics."""

    def __init__(self, kind: Callable[..., _CountT]) -> None:
        self._kind = kind
        self.by_org: dict[UUID, _CountT] = {}
        self.is_counted = False

    def put(self, org_id: UUID, count: _CountT) -> None:
        self.by_org[org_id] = count
        self.is_counted = True

    def keep_only(self, org_ids: Collection[UUID]) -> None:
        self.by_org = {org_id: self.by_org[org_id] for org_id in self.by_org if org_id in org_ids}

    def total(self) -> _CountT:
        return self._kind(*map(sum, zip(*self.by_org.values(), strict=True)))
