"""Plan cache: its content and its use."""

from uuid import UUID

from org_env import NOON
from plan_builders import make_plan, make_step
from waybook.plan.model import Plan, PlanId, PlanStatus, StepId, StepStatus, StepText
from waybook.store.audit import ChainHead
from waybook.store.plans.cache import (
    CHECKS_AFTER_CHANGE,
    MAX_SESSIONS,
    MAX_TEXT_LENGTH,
    MAX_TEXTS,
    RELOADS_AFTER_CONFLICT,
    PlanCache,
    PlanKey,
)
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
    """Return the cached plan, or None, as for a call while no other call uses the plan."""
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


def test_plan_cache_does_not_return_a_plan_in_use() -> None:
    plan = make_plan(make_step())
    memory = make_cache(plan)
    memory.begin_use(which(plan))
    assert recalled(memory, plan) is None
    memory.end_use(which(plan))
    assert recalled(memory, plan) is not None


def test_new_session_does_not_use_an_incomplete_cached_plan() -> None:
    plan = make_plan(make_step())._replace(sessions=frozenset({"mine"}))
    assert recalled(make_cache(plan), plan, "mine") is not None
    assert recalled(make_cache(plan), plan, "yours") is None
    assert recalled(make_cache(plan, all_sessions=True), plan, "yours") is not None


def test_updated_plan_in_the_cache_keeps_the_earlier_sessions() -> None:
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


def test_plan_with_a_conflict_is_cached_again_after_several_reloads() -> None:
    plan = make_plan(make_step())
    memory = make_cache(plan)
    memory.mark_contended(which(plan))
    for _ in range(RELOADS_AFTER_CONFLICT):
        assert recalled(memory, plan) is None
        memory.put(which(plan), loaded(plan))
    assert recalled(memory, plan) is None
    memory.put(which(plan), loaded(plan))
    assert recalled(memory, plan) is not None


def test_plan_changed_by_other_processes_is_checked_until_stable() -> None:
    plan = make_plan(make_step())
    memory = make_cache(plan)
    memory.mark_changed(which(plan))
    for _ in range(CHECKS_AFTER_CHANGE):
        assert recalled(memory, plan) is None
        assert memory.get_unchecked(which(plan), None) is not None
        assert not memory.must_lock(which(plan))
        memory.mark_unchanged(which(plan))
    assert recalled(memory, plan) is not None


def test_new_cached_plan_is_checked_while_other_processes_write() -> None:
    first, new, later = [make_plan(make_step())._replace(id=PlanId(name)) for name in "abc"]
    memory = make_cache(first)
    memory.mark_changed(which(first))
    memory.put(which(new), loaded(new))
    assert recalled(memory, new) is None
    for _ in range(CHECKS_AFTER_CHANGE):
        memory.mark_unchanged(which(new))
    memory.put(which(later), loaded(later))
    assert recalled(memory, later) is not None


def test_cached_plans_are_checked_after_changes_by_another_process() -> None:
    changed, old = [make_plan(make_step())._replace(id=PlanId(name)) for name in "ab"]
    memory = make_cache(changed)
    memory.put(which(old), loaded(old))
    assert recalled(memory, old) is not None
    for _ in range(CHECKS_AFTER_CHANGE):
        memory.mark_changed(which(changed))
    for _ in range(CHECKS_AFTER_CHANGE):
        assert recalled(memory, old) is None
        assert memory.get_unchecked(which(old), None) is not None
        memory.mark_unchanged(which(old))
        memory.put(which(old), loaded(old))
    assert recalled(memory, changed) is None
    assert recalled(memory, old) is not None


def test_cached_plans_are_checked_again_if_changes_resume_after_pause() -> None:
    changed, old = [make_plan(make_step())._replace(id=PlanId(name)) for name in "ab"]
    memory = make_cache(changed)
    memory.put(which(old), loaded(old))
    for _ in range(2):
        memory.mark_changed(which(changed))
        assert recalled(memory, old) is None
        for _ in range(CHECKS_AFTER_CHANGE):
            memory.mark_unchanged(which(old))
        assert recalled(memory, old) is not None


def test_cached_plan_with_a_conflict_is_locked_before_next_change() -> None:
    plan = make_plan(make_step())
    memory = make_cache(plan)
    assert not memory.must_lock(which(plan))
    memory.mark_contended(which(plan))
    assert memory.must_lock(which(plan))


def test_plan_cache_stores_only_short_texts_of_open_steps() -> None:
    plan = make_plan(make_step(StepStatus.COMPLETED), make_step(), make_step())
    _, long, short = plan.steps
    texts = {step.id: StepText(instructions="Look.") for step in plan.steps}
    texts[long.id] = StepText(instructions="L" * (MAX_TEXT_LENGTH + 1))
    plan = plan._replace(texts=texts)
    cached = recalled(make_cache(plan), plan)
    assert cached is not None
    assert dict(cached.plan.texts) == {short.id: texts[short.id]}


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
