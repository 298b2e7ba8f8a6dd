import pytest

from plan_builders import (
    ANN,
    BOB,
    PAT,
    changes_of,
    make_context,
    make_created_plan,
    make_plan,
    make_review,
    make_step,
)
from waybook.core.decision_context import Actor
from waybook.plan.model import DecisionKind, Plan, PlanStatus, StepStatus
from waybook.plan.modify import RemoveStep, modify
from waybook.plan.next_step import (
    StepReady,
    held_step,
    next_step,
)
from waybook.plan.review import decide

S = StepStatus


def taken(plan: Plan, actor: Actor = ANN, *, another: bool = False) -> StepReady:
    reply = next_step(plan, make_context(actor), another=another).reply
    assert isinstance(reply, StepReady)
    return reply


def test_next_step_of_a_closed_plan_reports_the_outcome() -> None:
    completed = make_plan(make_step(S.COMPLETED))
    assert next_step(completed, make_context()).reply is PlanStatus.COMPLETED
    failed = make_plan(make_step(), status=PlanStatus.FAILED)
    assert next_step(failed, make_context()).reply is PlanStatus.FAILED


def test_next_step_during_review_returns_awaiting_review() -> None:
    plan = make_plan(make_step(S.AWAITING_INPUT), make_step(), review=make_review(1))
    decided = next_step(plan, make_context())
    assert decided.reply is PlanStatus.AWAITING_REVIEW
    assert decided.entries == ()


def test_next_step_of_a_plan_without_steps_returns_no_step() -> None:
    plan = make_created_plan(1)
    empty = modify(plan, (RemoveStep(plan.steps[0].id),), make_context()).plan
    assert next_step(empty, make_context()).reply is PlanStatus.PLANNING


def test_next_step_returns_the_held_step_to_the_session() -> None:
    plan = next_step(make_created_plan(), make_context(ANN)).plan
    again = next_step(plan, make_context(ANN, minutes=5))
    assert isinstance(again.reply, StepReady)
    assert again.reply.resumed
    assert again.reply.step == plan.steps[0]
    assert again.entries == ()
    assert again.touched == (plan.steps[0].id,)


def test_another_user_with_the_same_session_name_gets_another_step() -> None:
    plan = next_step(make_created_plan(), make_context(ANN)).plan
    namesake = BOB._replace(session=ANN.session)
    assert held_step(plan, namesake) is None
    assert taken(plan, namesake).step.order == 2


def test_caller_without_a_session_never_resumes_a_step() -> None:
    assert (
        held_step(
            make_plan(make_step(S.IN_PROGRESS, held_session=None)), ANN._replace(session=None)
        )
        is None
    )


@pytest.mark.parametrize("actor", [ANN, BOB])
def test_step_can_go_to_any_caller_after_modify_decision(actor: Actor) -> None:
    waiting = make_plan(make_step(S.AWAITING_INPUT), make_step(), review=make_review(1))
    back = decide(waiting, DecisionKind.MODIFY, make_context(PAT), feedback="Again.").plan
    assert back.steps[0].held_by is None
    ready = taken(back, actor)
    assert (ready.step.order, ready.step.attempt, ready.resumed) == (1, 2, True)
    assert ready.step.held_by == actor.user
    assert back.texts[ready.step.id].instructions.endswith("User feedback: Again.")


def test_next_step_updates_last_seen_time_without_an_audit_entry() -> None:
    decided = next_step(make_plan(make_step()), make_context())
    assert decided.touched
    assert "last_seen_at" not in {change.field for change in changes_of(decided)}
