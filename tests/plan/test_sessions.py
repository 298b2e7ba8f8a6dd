from plan_builders import (
    ANN,
    BOB,
    PAT,
    events_of,
    make_context,
    make_created_plan,
    make_plan,
    make_step,
)
from waybook.plan.draft import Draft, is_new_session, register_session, resume_session
from waybook.plan.model import PlanStatus
from waybook.plan.next_step import StepReady, next_step


def test_resuming_a_newly_created_plan_writes_no_audit_entry() -> None:
    fresh = make_created_plan(actor=PAT)
    assert resume_session(fresh, make_context(BOB)).entries == ()
    taken = next_step(fresh, make_context(BOB))
    assert events_of(taken) == ["step_started"]
    assert taken.plan.sessions == {"b"}
    assert resume_session(taken.plan, make_context(BOB)).entries == ()


def test_new_session_is_not_recorded_without_a_name_or_on_a_closed_plan() -> None:
    assert not is_new_session(make_plan(make_step()), None)
    assert not is_new_session(make_plan(status=PlanStatus.FAILED, sessions=frozenset[str]()), "new")
    draft = Draft(make_plan(make_step()), make_context(PAT))
    register_session(draft)
    assert draft.decide(None).entries == ()


def test_session_resumes_the_same_step_on_another_channel() -> None:
    plan = next_step(make_created_plan(), make_context(ANN)).plan
    elsewhere = ANN._replace(channel=PAT.channel)
    resumed = next_step(plan, make_context(elsewhere)).reply
    assert isinstance(resumed, StepReady)
    assert resumed.resumed
    nameless = next_step(plan, make_context(ANN._replace(session=None))).reply
    assert isinstance(nameless, StepReady)
    assert not nameless.resumed
