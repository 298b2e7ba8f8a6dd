"""Changes of a plan by other processes, applied to a cached copy of the plan."""

from datetime import UTC, datetime, timedelta

import pytest

from org_env import NOON
from plan_builders import make_plan, make_step
from waybook.json_values import Json
from waybook.plan.model import Plan, PlanStatus, StepStatus
from waybook.store.audit import ChainHead
from waybook.store.driver.queries import as_json_text
from waybook.store.plans.load import LoadedPlan
from waybook.store.plans.refresh import MAX_ENTRIES, apply_entries
from waybook.store.plans.rows import ChangeRow

LATER = NOON + timedelta(minutes=1)


def cached(plan: Plan) -> LoadedPlan:
    return LoadedPlan(plan, NOON, ChainHead(plan.seq, b"cached", NOON))


def entries(plan: Plan, *groups: Json) -> list[ChangeRow]:
    """Return the last entry of the cached plan, and one entry for each group of changes."""
    first = ChangeRow(plan.seq, NOON, b"cached", LATER, "{}")
    return [first, *(entry(plan.seq + n, group) for n, group in enumerate(groups, 1))]


def entry(seq: int, *groups: Json) -> ChangeRow:
    details = as_json_text({"changes": [*groups]})
    return ChangeRow(seq, LATER, b"entry %d" % seq, LATER, details)


def test_cached_plan_without_later_audit_entries_stays_the_same() -> None:
    plan = make_plan(make_step())
    assert apply_entries(cached(plan), entries(plan)) == cached(plan)._replace(now=LATER)


def test_cached_plan_is_updated_from_audit_entries_of_other_processes() -> None:
    plan = make_plan(make_step(), make_step())
    step, other = plan.steps
    claim: Json = ["step", step.id, {"status": ["pending", "in_progress"], "held_by": ["bob"]}]
    done: dict[str, Json] = {
        "status": ["in_progress", "completed"],
        "completed_at": [LATER.isoformat()],
    }
    after = apply_entries(
        cached(plan),
        entries(
            plan,
            claim,
            ["session", "s", {"*": [{"seen_at": LATER.isoformat()}]}],
            ["step", step.id, {**done, "result_summary": ["found"]}],
            ["plan", plan.id, {"status": ["executing", "stalled"], "fail_reason": ["why"]}],
        ),
    )
    assert after is not None
    assert after.head == ChainHead(plan.seq + 4, b"entry %d" % (plan.seq + 4), LATER)
    assert after.plan == plan._replace(
        seq=plan.seq + 4,
        status=PlanStatus.STALLED,
        fail_reason="why",
        sessions=plan.sessions | {"s"},
        steps=(
            step._replace(status=StepStatus.COMPLETED, completed_at=LATER, held_by="bob"),
            other,
        ),
    )
    assert after.plan.steps[0].completed_at == datetime(2030, 1, 1, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "group",
    [
        ["step", "new", {"*": [{"title": "a new step"}]}],
        ["step", "unknown", {"status": ["pending", "in_progress"]}],
        ["step", "0", {"order": [1, 2]}],
        ["plan", "p", {"name": ["a", "b"]}],
        ["condition", "c", {"outcome": ["fired"]}],
        ["review", "r", {"decision": ["approve"]}],
        {"entity": "step", "id": "0", "field": "status", "from": "pending", "to": "failed"},
    ],
)
def test_unusual_audit_entries_make_the_plan_cache_reload_the_plan(group: Json) -> None:
    plan = make_plan(make_step())
    assert apply_entries(cached(plan), entries(plan, group)) is None


def test_gap_in_audit_entries_makes_the_plan_cache_reload() -> None:
    plan = make_plan(make_step())
    usage: Json = ["usage", "u", {"*": [{}]}]
    first, *later = entries(plan, *[usage] * (MAX_ENTRIES + 1))
    assert apply_entries(cached(plan), [first, *later[:MAX_ENTRIES]]) is not None
    assert apply_entries(cached(plan), [first, *later]) is None
    assert apply_entries(cached(plan), []) is None
    assert apply_entries(cached(plan), [first, *later[1:3]]) is None
    assert apply_entries(cached(plan), later[:2]) is None
    assert apply_entries(cached(plan), [first._replace(hash=b"other"), *later[:2]]) is None
    assert apply_entries(cached(plan), [first, later[0]._replace(details=None)]) is None
