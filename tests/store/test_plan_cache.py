"""Plan cache: which plans it returns, drops and updates."""

from uuid import UUID

from org_env import NOON
from plan_builders import make_plan, make_step
from waybook.plan.model import Plan, PlanStatus, StepId, StepText
from waybook.store.audit import ChainHead
from waybook.store.plans.cache import MAX_SESSIONS, MAX_TEXTS, PlanCache, PlanKey
from waybook.store.plans.load import LoadedPlan

ORG = UUID(int=1)


def which(plan: Plan) -> PlanKey:
    return ORG.int, plan.id


def loaded(plan: Plan) -> LoadedPlan:
    return LoadedPlan(plan, NOON, ChainHead(plan.seq))


def make_cache(plan: Plan, *, all_sessions: bool = False) -> PlanCache:
    memory = PlanCache()
    memory.put(which(plan), loaded(plan), all_sessions=all_sessions)
    return memory


def recalled(memory: PlanCache, plan: Plan, session: str | None = None) -> LoadedPlan | None:
    """Return the plan, or None, that a call gets from the cache while no other call uses it."""
    memory.begin_use(which(plan))
    try:
        return memory.get(which(plan), session)
    finally:
        memory.end_use(which(plan))


def test_plan_cache_returns_the_plan_that_was_stored_last() -> None:
    plan = make_plan(make_step())
    memory = make_cache(plan)
    later = plan._replace(seq=7)
    memory.put(which(plan), loaded(later))
    cached = recalled(memory, plan)
    assert cached is not None
    assert (cached.plan.seq, cached.head) == (7, ChainHead(7))


def test_plan_cache_does_not_return_a_plan_of_another_org() -> None:
    plan = make_plan(make_step())
    other = (2, plan.id)
    memory = make_cache(plan)
    memory.begin_use(other)
    assert memory.get(other, None) is None


def test_plan_cached_for_some_sessions_is_not_returned_to_other_sessions() -> None:
    plan = make_plan(make_step())._replace(sessions=frozenset({"mine"}))
    assert recalled(make_cache(plan), plan, "mine") is not None
    assert recalled(make_cache(plan), plan, "yours") is None
    assert recalled(make_cache(plan, all_sessions=True), plan, "yours") is not None


def test_plan_that_is_cached_again_is_still_returned_to_earlier_sessions() -> None:
    plan = make_plan(make_step())
    memory = make_cache(plan._replace(sessions=frozenset({"first"})))
    memory.put(which(plan), loaded(plan._replace(sessions=frozenset({"second"}))))
    assert recalled(memory, plan, "first") is not None
    assert recalled(memory, plan, "second") is not None


def test_plan_cache_drops_a_plan_when_the_plan_is_closed() -> None:
    plan = make_plan(make_step())
    memory = make_cache(plan)
    memory.put(which(plan), loaded(plan._replace(status=PlanStatus.COMPLETED)))
    assert recalled(memory, plan) is None


def test_plan_cache_limits_the_number_of_plans_texts_and_sessions() -> None:
    memory = PlanCache(most=3)
    plans = [make_plan(make_step())._replace(id=f"p{number}") for number in range(5)]  # type: ignore[arg-type]  # any id will do
    for plan in plans:
        memory.put(which(plan), loaded(plan))
        memory.mark_contended((ORG.int, f"other {plan.id}"))
    assert [recalled(memory, plan) is not None for plan in plans] == [False] * 2 + [True] * 3
    many = make_plan(*[make_step() for _ in range(MAX_TEXTS + 9)])
    many = many._replace(texts={s.id: StepText(instructions="Look.") for s in many.steps})
    cached = recalled(make_cache(many), many)
    assert cached is not None
    assert list(cached.plan.texts) == [StepId(s.id) for s in many.steps[:MAX_TEXTS]]
    crowd = frozenset(f"s{number}" for number in range(MAX_SESSIONS + 1))
    assert recalled(make_cache(many._replace(sessions=crowd)), many) is None
