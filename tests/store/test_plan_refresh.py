"""Changes of a plan by other processes, applied to a cached copy of the plan."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import NOON
from plan_builders import make_plan, make_step
from waybook.core.changes import Event
from waybook.json_values import Json, rfc3339
from waybook.plan.model import Plan, PlanId, StepId
from waybook.plan.states import PlanStatus, StepStatus
from waybook.store.audit import ChainHead
from waybook.store.driver.queries import as_json_text
from waybook.store.packed_entries import NO_DETAILS, pack_details
from waybook.store.plans import refresh
from waybook.store.plans.load import LoadedPlan
from waybook.store.plans.refresh import MAX_ENTRIES, apply_entries
from waybook.store.plans.rows import ChangeRow

LATER = NOON + timedelta(minutes=1)
#: Time with microseconds, which packed details do not contain.
SOON = NOON + timedelta(microseconds=1)
PLAN_ID = "01a1ea13-ae3b-7dee-9aae-7af8525d3c3c"
STEP_ID = "01a1ea13-ae3b-7661-8d64-f1bc05373eec"

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
results = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | names | st.sampled_from([STEP_ID, PLAN_ID]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def cached(plan: Plan) -> LoadedPlan:
    return LoadedPlan(plan, NOON, ChainHead(plan.seq, b"cached", NOON))


def entries(plan: Plan, *groups: Json) -> list[ChangeRow]:
    """Return the last entry of the cached plan, and one entry for each group of changes."""
    first = ChangeRow(plan.seq, NOON, b"cached", LATER, "{}", None, None, "ann", None)
    return [first, *(entry(plan.seq + n, group) for n, group in enumerate(groups, 1))]


def entry(seq: int, *groups: Json) -> ChangeRow:
    details = as_json_text({"changes": [*groups]})
    return ChangeRow(seq, LATER, b"entry %d" % seq, LATER, details, None, None, "ann", None)


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


# Packed entries


def stored_plan() -> Plan:
    """Return a plan whose ids have the form of stored ids, so that its entries are packed."""
    plan = make_plan(make_step(), make_step())
    first, second = plan.steps
    return plan._replace(id=PlanId(PLAN_ID), steps=(first, second._replace(id=StepId(STEP_ID))))


def claim(actor: str, session: str | None, **more: Json) -> Json:
    fields: dict[str, Json] = {
        "status": ["pending", "in_progress"],
        "in_progress_since": [rfc3339(SOON)],
    }
    return ["step", STEP_ID, {**fields, "held_by": [actor], "held_session": [session], **more}]


def result(value: Json, **more: Json) -> Json:
    fields: dict[str, Json] = {
        "status": ["in_progress", "completed"],
        "completed_at": [rfc3339(SOON)],
    }
    return ["step", STEP_ID, {**fields, "result_summary": [value], **more}]


def new_session(session: str) -> Json:
    return ["session", session, {"*": [{"seen_at": rfc3339(SOON)}]}]


def packed_and_plain(
    event: Event, actor: str, session: str | None, *groups: Json
) -> tuple[ChangeRow, ChangeRow]:
    """Return an entry of a step with packed details, and the same with plain details."""
    resumed = {"resumed": False} if event is Event.STEP_STARTED else {}
    head = {"stepId": STEP_ID, "stepOrder": 2, "attempt": 1, **resumed}
    details = as_json_text({**head, "changes": [*groups]})
    packed = pack_details(event, details, PLAN_ID, SOON, actor, session)
    assert packed is not None
    seq = stored_plan().seq + 1
    plain = ChangeRow(seq, SOON, b"new", LATER, details, None, None, actor, session)
    return plain._replace(details=NO_DETAILS, packed=packed[0], step_id=packed[1]), plain


def applied(row: ChangeRow) -> LoadedPlan | None:
    plan = stored_plan()
    return apply_entries(cached(plan), [*entries(plan), row])


ENDED: dict[str, Json] = {"status": ["executing", "completed"], "completed_at": [rfc3339(SOON)]}
FINISHED: Json = ["plan", PLAN_ID, ENDED]
EXECUTING: Json = ["plan", PLAN_ID, {"status": ["planning", "executing"]}]
BRANCH: Json = ["step", "s1", {"status": ["pending", "skipped"]}]
OTHER_CHANGES: list[list[Json]] = [[], [BRANCH], [EXECUTING], [FINISHED], [BRANCH, FINISHED]]
OTHER_FIELDS: list[dict[str, Json]] = [
    {},
    {"confidence": [0.8]},
    {"confidence": [1], "report": [["x"]]},
    {"confidence": [0.5], "silent_holders": [0, 1]},
    {"attempt": [1, 2], "confidence": [0.5]},
    {"unknown": [1]},
]


@given(
    value=results,
    actor=names,
    session=st.none() | names,
    others=st.sampled_from(OTHER_CHANGES),
    more=st.sampled_from(OTHER_FIELDS),
    is_claim=st.booleans(),
    is_known=st.booleans(),
)
def test_packed_and_plain_audit_entries_have_the_same_effect(
    value: Json,
    actor: str,
    session: str | None,
    others: list[Json],
    more: dict[str, Json],
    *,
    is_claim: bool,
    is_known: bool,
) -> None:
    event = Event.STEP_STARTED if is_claim else Event.STEP_COMPLETED
    change = claim(actor, session, **more) if is_claim else result(value, **more)
    before = [] if session is None or is_known else [new_session(session)]
    packed, plain = packed_and_plain(event, actor, session, *before, change, *others)
    assert applied(packed) == applied(plain)


@pytest.mark.parametrize(
    ("event", "groups"),
    [
        (Event.STEP_STARTED, [claim("ann", "s")]),
        (Event.STEP_STARTED, [new_session("s"), claim("ann", "s"), EXECUTING]),
        (Event.STEP_COMPLETED, [result("found")]),
        (Event.STEP_COMPLETED, [result({"found": [1, 2]}, confidence=[0.8])]),
        (Event.STEP_COMPLETED, [new_session("s"), result("found", confidence=[1])]),
        (Event.STEP_COMPLETED, [result("found", confidence=[1]), FINISHED]),
    ],
)
def test_packed_audit_entries_update_the_cached_plan_without_reading_json(
    event: Event, groups: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, plain = packed_and_plain(event, "ann", "s", *groups)
    expected = applied(plain)
    assert expected is not None
    monkeypatch.setattr(refresh, "_apply_changes", None)
    assert applied(packed) == expected
