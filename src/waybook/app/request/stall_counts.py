"""Numbers of stalled plans and steps, and of open work, at the last background check."""

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
    """Stalled plans and steps of each org, kept in memory for the metrics endpoint."""

    by_org: dict[UUID, StallCount] = field(default_factory=dict)
    is_counted: bool = False

    def put(self, org_id: UUID, count: StallCount) -> None:
        self.by_org[org_id] = count
        self.is_counted = True

    def keep_only(self, org_ids: Collection[UUID]) -> None:
        self.by_org = {org_id: self.by_org[org_id] for org_id in self.by_org if org_id in org_ids}

    def total(self) -> StallCount:
        counts = self.by_org.values()
        return StallCount(sum(c.plans for c in counts), sum(c.steps for c in counts))


@dataclass(slots=True)
class WorkCounts:
    by_org: dict[UUID, WorkCount] = field(default_factory=dict)

    def put(self, org_id: UUID, count: WorkCount) -> None:
        self.by_org[org_id] = count

    def keep_only(self, org_ids: Collection[UUID]) -> None:
        self.by_org = {org_id: self.by_org[org_id] for org_id in self.by_org if org_id in org_ids}

    def total(self) -> WorkCount:
        return WorkCount(*map(sum, zip(*self.by_org.values(), strict=True)))
