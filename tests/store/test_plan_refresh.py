"""Cached plans, updated with the audit entries that other processes wrote."""

from datetime import timedelta

import pytest

from org_env import NOON
from plan_builders import make_plan, make_step
from waybook.json_values import Json
from waybook.plan.model import Plan
from waybook.store.audit import ChainHead
from waybook.store.driver.queries import as_json_text
from waybook.store.plans.load import LoadedPlan
from waybook.store.plans.refresh import MAX_ENTRIES, ChangeRow, apply_entries

LATER = NOON + timedelta(minutes=1)


def cached(plan: Plan) -> LoadedPlan:
    return LoadedPlan(plan, NOON, ChainHead(plan.seq, b"cached", NOON))


def entries(plan: Plan, *groups: Json) -> list[ChangeRow]:
    """Return the last audit entry that the cache knows, then one entry per group of changes."""
    first = ChangeRow(plan.seq, NOON, b"cached", LATER, "{}")
    return [first, *(entry(plan.seq + n, group) for n, group in enumerate(groups, 1))]


def entry(seq: int, *groups: Json) -> ChangeRow:
    details = as_json_text({"changes": [*groups]})
    return ChangeRow(seq, LATER, b"entry %d" % seq, LATER, details)


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
def test_plan_cache_reloads_a_plan_after_an_unsupported_audit_change(group: Json) -> None:
    plan = make_plan(make_step())
    assert apply_entries(cached(plan), entries(plan, group)) is None


def test_plan_is_reloaded_if_audit_entries_are_incomplete_or_too_many() -> None:
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
