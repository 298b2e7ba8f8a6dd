"""Which plan a step belongs to: a fact that never changes, so it is asked once and remembered.

Callers name steps, but the plan is what is locked and loaded, by its key. Whoever was handed a
step here names it again a little later; then the answer is at hand.
"""

from collections import OrderedDict
from uuid import UUID

MAX_ENTRIES = 10_000


class ParentCache:
    def __init__(self, most: int = MAX_ENTRIES) -> None:
        """Remember so many steps, the ones asked for last."""
        self._plans: OrderedDict[tuple[UUID, str], str] = OrderedDict()
        self._most = most

    def put(self, org_id: UUID, step_id: str, plan_id: str) -> None:
        """Note where a step of an org is."""
        self._plans[org_id, step_id] = plan_id
        self._plans.move_to_end((org_id, step_id))
        if len(self._plans) > self._most:
            self._plans.popitem(last=False)

    def get(self, org_id: UUID, step_id: str) -> str | None:
        """The step's plan, if it has come by."""
        return self._plans.get((org_id, step_id))
