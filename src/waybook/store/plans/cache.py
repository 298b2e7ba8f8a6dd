"""Caches plans in memory.

A call uses the cached plan, and its write fails if another process has changed the plan since. The
call is then repeated with the plan from the database.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from waybook.plan.model import CLOSED_PLAN, TERMINAL_STEP, Plan, StepId, StepText
from waybook.store.plans.load import LoadedPlan

#: Org and id of a plan. The org is an int, because an int is hashed fast.
PlanKey: TypeAlias = tuple[int, str]

MAX_PLANS = 256
MAX_TEXTS = 32
MAX_TEXT_LENGTH = 4_000
MAX_SESSIONS = 32
#: After a write has failed because the plan had changed, this many calls read the plan from the
#: database.
RELOADS_AFTER_CONFLICT = 8
#: After another process changed a plan, this many checks must find it unchanged before the cached
#: plan is used unchecked again.
CHECKS_AFTER_CHANGE = 4
#: After another process changed any plan, newly cached plans are checked too. The checks end when
#: enough of them found plans unchanged: `CHECKS_AFTER_CHANGE` for each change, but at most this
#: many.
MAX_CHECKS_OF_NEW_PLANS = 32


class CacheEntry(NamedTuple):
    loaded: LoadedPlan
    #: Whether the cached plan lists all sessions that ever worked on the plan.
    all_sessions: bool
    period: int = 0


class PlanCache:
    def __init__(self, most: int = MAX_PLANS) -> None:
        self._plans: OrderedDict[PlanKey, CacheEntry] = OrderedDict()
        self._most = most
        self._at_work: dict[PlanKey, int] = {}
        self._contended: OrderedDict[PlanKey, int] = OrderedDict()
        self._shared: OrderedDict[PlanKey, int] = OrderedDict()
        self._checks_of_new_plans = 0
        self._period = 0

    def begin_use(self, which: PlanKey) -> None:
        self._at_work[which] = self._at_work.get(which, 0) + 1

    def end_use(self, which: PlanKey) -> None:
        if self._at_work[which] > 1:
            self._at_work[which] -= 1
        else:
            del self._at_work[which]

    def get(self, which: PlanKey, session: str | None) -> LoadedPlan | None:
        """Return the cached plan, or None if it must first be read or checked for changes."""
        cached = self._plans.get(which)
        if cached is None or which in self._shared or self._at_work.get(which, 0) > 1:
            return None
        if self._checks_of_new_plans and cached.period != self._period:
            self._share(which)
            return None
        return self.get_unchecked(which, session)

    def get_unchecked(self, which: PlanKey, session: str | None) -> LoadedPlan | None:
        """Return the cached plan even if other processes may have changed it."""
        entry = self._plans.get(which)
        if entry is None:
            return None
        known = session is None or entry.all_sessions or session in entry.loaded.plan.sessions
        return entry.loaded if known else None

    def must_lock(self, which: PlanKey) -> bool:
        return which in self._contended or self._at_work.get(which, 0) > 1

    def put(self, which: PlanKey, loaded: LoadedPlan, *, all_sessions: bool = False) -> None:
        """Cache a plan that was just written."""
        before = self._plans.pop(which, None)
        if loaded.plan.status in CLOSED_PLAN or self._must_reload(which):
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
        self._plans.pop(which, None)

    def clear(self) -> None:
        self._plans.clear()

    def mark_contended(self, which: PlanKey) -> None:
        """Remove a plan after a write failed because another process had changed it."""
        self.invalidate(which)
        self._contended[which] = RELOADS_AFTER_CONFLICT
        if len(self._contended) > self._most:
            self._contended.popitem(last=False)

    def mark_changed(self, which: PlanKey) -> None:
        """Record that another process has changed this plan, so that the next calls check it."""
        if not self._checks_of_new_plans:
            self._period += 1
        self._share(which)
        more = self._checks_of_new_plans + CHECKS_AFTER_CHANGE
        self._checks_of_new_plans = min(more, MAX_CHECKS_OF_NEW_PLANS)

    def mark_unchanged(self, which: PlanKey) -> None:
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

    def _must_reload(self, which: PlanKey) -> bool:
        if which not in self._contended:
            return False
        self._contended[which] -= 1
        if not self._contended[which]:
            del self._contended[which]
        return True


def _worth_keeping(plan: Plan, *, is_checked: bool) -> Mapping[StepId, StepText]:
    texts = plan.texts
    open_steps = [s.id for s in plan.steps if s.status not in TERMINAL_STEP and s.id in texts]
    if is_checked:
        return {step: texts[step] for step in open_steps} if len(open_steps) < len(texts) else texts
    few = open_steps[:MAX_TEXTS]
    return {step: texts[step] for step in few if len(texts[step].instructions) <= MAX_TEXT_LENGTH}
