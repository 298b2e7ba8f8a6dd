"""Plans as they were when this process last wrote them.

An agent that works through a plan mostly talks to one process, which then knows how the plan
stands. A call decides on what is remembered, and one message does the rest: it locks the plan if
it is still so, writes, and commits. If it is not so, nothing is written, and the call loads the
plan after all. See `still_so` in `plans.sql`.

Which plan a step belongs to: a fact that never changes, so it is asked once and remembered.

Callers name steps, but the plan is what is locked and loaded, by its key. Whoever was handed a
step here names it again a little later; then the answer is at hand.
"""

from collections import Counter, OrderedDict
from typing import NamedTuple, TypeAlias
from uuid import UUID

from waybook.plan.model import Plan, StepId, StepText
from waybook.plan.states import CLOSED_PLAN, TERMINAL_STEP
from waybook.store.driver.wire import StaleCache
from waybook.store.plans.load import LoadedPlan

PlanKey: TypeAlias = tuple[UUID, str]

MAX_PLANS = 256
MAX_TEXTS = 32
MAX_TEXT_LENGTH = 4_000
MAX_SESSIONS = 32
#: How many calls load a plan that somebody else has changed, before memory is relied upon.
RELOADS_AFTER_CONFLICT = 8


class CachedTexts(dict[StepId, StepText]):
    """Texts of steps; who needs another one must load it."""

    def __missing__(self, step_id: StepId) -> StepText:
        raise StaleCache


class CacheEntry(NamedTuple):
    loaded: LoadedPlan
    #: Whether the plan has met no other session than it names.
    all_sessions: bool


class PlanCache:
    def __init__(self, most: int = MAX_PLANS) -> None:
        """Remember so many plans, the ones used last."""
        self._plans: OrderedDict[PlanKey, CacheEntry] = OrderedDict()
        self._most = most
        self._at_work: Counter[PlanKey] = Counter()
        self._wary: OrderedDict[PlanKey, int] = OrderedDict()

    def begin_use(self, which: PlanKey) -> None:
        """Somebody here has begun to work on this plan."""
        self._at_work[which] += 1

    def end_use(self, which: PlanKey) -> None:
        """And has ended."""
        self._at_work[which] -= 1
        if not self._at_work[which]:
            del self._at_work[which]

    def get(self, which: PlanKey, session: str | None) -> LoadedPlan | None:
        """The plan, for a call that has entered: unless others are at it, or may have been."""
        found = self._plans.get(which)
        if found is None or self._at_work[which] > 1:
            return None
        known = session is None or found.all_sessions or session in found.loaded.plan.sessions
        return found.loaded if known else None

    def put(self, which: PlanKey, loaded: LoadedPlan, *, all_sessions: bool = False) -> None:
        """The plan is so now; what was known of it before still is, where it is not said anew."""
        before = self._plans.pop(which, None)
        if loaded.plan.status in CLOSED_PLAN or self._is_wary(which):
            return
        sessions = loaded.plan.sessions
        if before is not None:
            all_sessions = all_sessions or before.all_sessions
            sessions |= before.loaded.plan.sessions
        if len(sessions) > MAX_SESSIONS:
            return
        plan = loaded.plan._replace(sessions=sessions, texts=_worth_keeping(loaded.plan))
        self._plans[which] = CacheEntry(loaded._replace(plan=plan), all_sessions)
        if len(self._plans) > self._most:
            self._plans.popitem(last=False)

    def invalidate(self, which: PlanKey) -> None:
        """The plan may be otherwise now."""
        self._plans.pop(which, None)

    def mark_contended(self, which: PlanKey) -> None:
        """The plan was otherwise: somebody else works on it too."""
        self.invalidate(which)
        self._wary[which] = RELOADS_AFTER_CONFLICT
        if len(self._wary) > self._most:
            self._wary.popitem(last=False)

    def _is_wary(self, which: PlanKey) -> bool:
        left = self._wary.get(which, 0)
        if left > 1:
            self._wary[which] = left - 1
        else:
            self._wary.pop(which, None)
        return left > 0


def _worth_keeping(plan: Plan) -> CachedTexts:
    """The texts that may be asked for again, as far as they are short."""
    texts = plan.texts
    open_steps = [s.id for s in plan.steps if s.status not in TERMINAL_STEP and s.id in texts]
    few = open_steps[:MAX_TEXTS]
    return CachedTexts(
        {step: texts[step] for step in few if len(texts[step].instructions) <= MAX_TEXT_LENGTH}
    )


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
