"""In-memory caches for plans, and for the plan id of each step.

A call makes its decision on the cached plan, and then sends one message that locks the plan if it
is unchanged, writes, and commits. If the plan has changed, nothing is written, and the call is
repeated with the plan from the database. See `lock_if_unchanged` in `plans/load.sql`.

If calls on a plan reach several processes, a process finds that others have changed the plan. Its
next calls on the plan first read what has changed; see `refresh.py`. As long as a process finds
such changes, it also checks each of its other plans a few times, because a call on an outdated copy
fails, and with it the message that it shares with other calls. If a plan changes even between that
read and the commit, the next calls on the plan lock it before they decide.

Calls contain step ids, but plans are locked and loaded by plan id. A step never moves to another
plan, so its plan id is looked up once and cached.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from waybook.plan.model import Plan, StepId, StepText
from waybook.plan.states import CLOSED_PLAN, TERMINAL_STEP
from waybook.store.plans.load import LoadedPlan

#: Org and id of a plan. The org is represented as a number, because numbers can be hashed fast.
PlanKey: TypeAlias = tuple[int, str]

MAX_PLANS = 256
MAX_TEXTS = 32
MAX_TEXT_LENGTH = 4_000
MAX_SESSIONS = 32
#: Number of calls that load a plan from the database after a conflict on the plan; after these
#: calls, the cache is used again.
RELOADS_AFTER_CONFLICT = 8
#: Number of calls in a row that find a plan unchanged by other processes; after these calls, the
#: cached plan is used again without a check. A check costs a small part of a call, and a call that
#: has to be repeated costs more than two.
CHECKS_AFTER_CHANGE = 4
#: Maximum number of checks that must find plans unchanged before new plans are used unchecked.
MAX_CHECKS_OF_NEW_PLANS = 32


class CacheEntry(NamedTuple):
    loaded: LoadedPlan
    #: True if the cached plan lists every session that the plan has had, so that a session that is
    #: not listed is new.
    all_sessions: bool
    #: Last period of changes by other processes in which the plan was cached first or was checked.
    period: int = 0


class PlanCache:
    def __init__(self, most: int = MAX_PLANS) -> None:
        """Create an empty cache that keeps the `most` plans that were written last."""
        self._plans: OrderedDict[PlanKey, CacheEntry] = OrderedDict()
        self._most = most
        #: Number of calls that use each plan now.
        self._at_work: dict[PlanKey, int] = {}
        self._wary: OrderedDict[PlanKey, int] = OrderedDict()
        #: Plans that other processes change too, with the number of checks that are left.
        self._shared: OrderedDict[PlanKey, int] = OrderedDict()
        #: Number of checks for which other processes are assumed to change plans. Meanwhile, plans
        #: that are new in the cache or were not checked in this period are assumed to be shared.
        self._checks_of_new_plans = 0
        #: Number of periods in which other processes have changed plans.
        self._period = 0

    def begin_use(self, which: PlanKey) -> None:
        """Mark the start of a call that uses this plan in this process."""
        self._at_work[which] = self._at_work.get(which, 0) + 1

    def end_use(self, which: PlanKey) -> None:
        """Mark the end of a call that uses this plan."""
        if self._at_work[which] > 1:
            self._at_work[which] -= 1
        else:
            del self._at_work[which]

    def get(self, which: PlanKey, session: str | None) -> LoadedPlan | None:
        """Return the cached plan to decide on; None if it must be read or checked first."""
        cached = self._plans.get(which)
        if cached is None or which in self._shared or self._at_work.get(which, 0) > 1:
            return None
        if self._checks_of_new_plans and cached.period != self._period:
            self._share(which)
            return None
        known = session is None or cached.all_sessions or session in cached.loaded.plan.sessions
        return cached.loaded if known else None

    def get_unchecked(self, which: PlanKey, session: str | None) -> LoadedPlan | None:
        """Return the cached plan, which others may have changed; None if the session is new."""
        entry = self._plans.get(which)
        if entry is None:
            return None
        known = session is None or entry.all_sessions or session in entry.loaded.plan.sessions
        return entry.loaded if known else None

    def must_lock(self, which: PlanKey) -> bool:
        """Return whether a call must lock the plan before it decides."""
        return which in self._wary or self._at_work.get(which, 0) > 1

    def put(self, which: PlanKey, loaded: LoadedPlan, *, all_sessions: bool = False) -> None:
        """Cache a plan that was just written, with the known sessions of its old cache entry."""
        before = self._plans.pop(which, None)
        if loaded.plan.status in CLOSED_PLAN or self._is_wary(which):
            self._shared.pop(which, None)
            return
        if before is None and self._checks_of_new_plans:
            self._share(which)
        plan = loaded.plan
        sessions, cached_texts, period = plan.sessions, None, self._period
        if before is not None:
            period = before.period
            all_sessions = all_sessions or before.all_sessions
            sessions |= before.loaded.plan.sessions
            cached_texts = before.loaded.plan.texts
        if len(sessions) > MAX_SESSIONS:
            return
        texts = _worth_keeping(plan, is_checked=plan.texts is cached_texts)
        if texts is not plan.texts or sessions != plan.sessions:
            loaded = loaded._replace(plan=plan._replace(sessions=sessions, texts=texts))
        self._plans[which] = CacheEntry(loaded, all_sessions, period)
        if len(self._plans) > self._most:
            self._plans.popitem(last=False)

    def invalidate(self, which: PlanKey) -> None:
        """Remove a plan that may have changed from the cache."""
        self._plans.pop(which, None)

    def clear(self) -> None:
        """Remove all plans from the cache."""
        self._plans.clear()

    def mark_contended(self, which: PlanKey) -> None:
        """Remove a plan that another process changed, and do not cache it during the next calls."""
        self.invalidate(which)
        self._wary[which] = RELOADS_AFTER_CONFLICT
        if len(self._wary) > self._most:
            self._wary.popitem(last=False)

    def mark_changed(self, which: PlanKey) -> None:
        """Check this plan before its next uses, because another process has changed it."""
        if not self._checks_of_new_plans:
            self._period += 1
        self._share(which)
        more = self._checks_of_new_plans + CHECKS_AFTER_CHANGE
        self._checks_of_new_plans = min(more, MAX_CHECKS_OF_NEW_PLANS)

    def mark_unchanged(self, which: PlanKey) -> None:
        """Count a check of the plan that found it unchanged."""
        self._checks_of_new_plans = max(self._checks_of_new_plans - 1, 0)
        left = self._shared.get(which, 0)
        if left > 1:
            self._shared[which] = left - 1
        else:
            self._shared.pop(which, None)

    def _share(self, which: PlanKey) -> None:
        entry = self._plans.get(which)
        if entry is not None and entry.period != self._period:
            self._plans[which] = entry._replace(period=self._period)
        self._shared[which] = CHECKS_AFTER_CHANGE
        if len(self._shared) > self._most:
            self._shared.popitem(last=False)

    def _is_wary(self, which: PlanKey) -> bool:
        if which not in self._wary:
            return False
        self._wary[which] -= 1
        if not self._wary[which]:
            del self._wary[which]
        return True


def _worth_keeping(plan: Plan, *, is_checked: bool) -> Mapping[StepId, StepText]:
    """Return the step texts worth caching: short texts of steps that are not finished.

    `is_checked` means that the plan's texts are those of its old cache entry, so that their number
    and lengths need no check.
    """
    texts = plan.texts
    open_steps = [s.id for s in plan.steps if s.status not in TERMINAL_STEP and s.id in texts]
    if is_checked:
        return {step: texts[step] for step in open_steps} if len(open_steps) < len(texts) else texts
    few = open_steps[:MAX_TEXTS]
    return {step: texts[step] for step in few if len(texts[step].instructions) <= MAX_TEXT_LENGTH}


MAX_ENTRIES = 10_000


class ParentCache:
    def __init__(self, most: int = MAX_ENTRIES) -> None:
        """Create an empty cache for the plan ids of at most `most` steps."""
        self._plans: OrderedDict[tuple[int, str], str] = OrderedDict()
        self._most = most

    def put(self, org_id: UUID, step_id: str, plan_id: str) -> None:
        """Cache the id of the plan that a step belongs to."""
        key = org_id.int, step_id
        self._plans[key] = plan_id
        self._plans.move_to_end(key)
        if len(self._plans) > self._most:
            self._plans.popitem(last=False)

    def get(self, org_id: UUID, step_id: str) -> str | None:
        """Return the cached id of the plan that a step belongs to, or None."""
        return self._plans.get((org_id.int, step_id))
