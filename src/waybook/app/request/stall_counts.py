"""Numbers of stalled plans and steps and of open work, as the last stall sweep counted them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from waybook.store.work import WorkCount


class StallCount(NamedTuple):
    plans: int = 0
    steps: int = 0


@dataclass(slots=True)
class StallCounts:
    """Numbers of stalled plans and steps of each org, kept in memory for the metrics endpoint."""

    by_org: dict[UUID, StallCount] = field(default_factory=dict)
    #: Whether a sweep of this process has counted stalls at least once.
    is_counted: bool = False

    def put(self, org_id: UUID, count: StallCount) -> None:
        """Store the numbers of stalled plans and steps of an org."""
        self.by_org[org_id] = count
        self.is_counted = True

    def keep_only(self, org_ids: Collection[UUID]) -> None:
        """Remove the numbers of orgs that no longer exist."""
        self.by_org = {org_id: self.by_org[org_id] for org_id in self.by_org if org_id in org_ids}

    def total(self) -> StallCount:
        """Return the numbers of stalled plans and steps in all orgs together."""
        counts = self.by_org.values()
        return StallCount(sum(c.plans for c in counts), sum(c.steps for c in counts))


@dataclass(slots=True)
class WorkCounts:
    """Open work of each org, kept in memory for the metrics endpoint."""

    by_org: dict[UUID, WorkCount] = field(default_factory=dict)

    def put(self, org_id: UUID, count: WorkCount) -> None:
        """Store the open work of an org."""
        self.by_org[org_id] = count

    def keep_only(self, org_ids: Collection[UUID]) -> None:
        """Remove the numbers of orgs that no longer exist."""
        self.by_org = {org_id: self.by_org[org_id] for org_id in self.by_org if org_id in org_ids}

    def total(self) -> WorkCount:
        """Return the open work of all orgs together."""
        return WorkCount(*map(sum, zip(*self.by_org.values(), strict=True)))
