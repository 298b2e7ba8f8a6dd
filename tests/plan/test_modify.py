import pytest

from plan_builders import (
    ANN,
    BOB,
    NOON,
    changes_of,
    events_of,
    ids,
    make_condition,
    make_context,
    make_created_plan,
    make_new_step,
    make_plan,
    make_review,
    make_step,
    moves_of,
    statuses,
    step_id,
)
from waybook.errors import (
    InvalidInput,
    InvalidStepReference,
    InvalidTransition,
    NotModifiable,
    PlanTerminal,
    StaleAttempt,
    StalePlan,
    TooLarge,
    WaybookError,
)
from waybook.plan.draft import Decision
from waybook.plan.model import (
    BranchAction,
    BranchOutcome,
    NewCondition,
    Plan,
    PlanStatus,
    StepId,
    StepStatus,
)
from waybook.plan.modify import (
    AddSteps,
    CancelPlan,
    FailStep,
    Modification,
    RemoveStep,
    ReorderSteps,
    RetryStep,
    SetConditions,
    UpdateInstructions,
    modify,
)

S = StepStatus
GONE = StepId("gone")


def modified(plan: Plan, *modifications: Modification) -> Decision[Plan]:
    return modify(plan, modifications, make_context(), rationale="because")


def test_modifying_a_plan_that_awaits_review_raises_not_modifiable() -> None:
    status = PlanStatus.AWAITING_REVIEW
    plan = make_plan(make_step(S.IN_PROGRESS), status=status, review=make_review(1))
    with pytest.raises(NotModifiable) as refusal:
        modified(plan, RetryStep(step_id(1)))
    assert refusal.value.details == {"status": status}
    assert refusal.value.next_call
    assert refusal.value.next_call.tool == "get_next_step"
    assert "waitSeconds" in refusal.value.next_call.args


def test_stalled_plan_is_resumed_before_a_modification_is_applied() -> None:
    plan = make_plan(make_step(S.IN_PROGRESS), status=PlanStatus.STALLED)
    done = modified(plan, RetryStep(step_id(1)))
    assert [entry.details["action"] for entry in done.entries] == ["resumed", "retry_step"]
    assert done.plan.status is PlanStatus.EXECUTING
    assert done.plan.step(step_id(1)).status is S.PENDING


def test_empty_list_of_modifications_or_steps_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        modify(make_created_plan(), (), make_context(BOB))
    with pytest.raises(InvalidInput, match="at least one"):
        modified(make_plan(make_step()), AddSteps(()))


@pytest.mark.parametrize(
    "modification",
    [RemoveStep(GONE), UpdateInstructions(GONE, "?"), FailStep(GONE, "?"), RetryStep(GONE)],
)
def test_modification_of_an_unknown_step_raises_invalid_step_reference(
    modification: Modification,
) -> None:
    with pytest.raises(InvalidStepReference) as refusal:
        modified(make_plan(make_step()), modification)
    assert refusal.value.details == {"stepId": "gone"}


def test_adding_too_many_steps_or_an_invalid_schema_is_refused() -> None:
    with pytest.raises(TooLarge):
        modified(make_plan(make_step()), AddSteps((make_new_step(),) * 200))
    with pytest.raises(InvalidInput):
        modified(make_plan(make_step()), AddSteps((make_new_step(result_schema={"type": 1}),)))


@pytest.mark.parametrize("status", [S.IN_PROGRESS, S.COMPLETED, S.SKIPPED, S.FAILED])
def test_step_that_is_not_pending_cannot_be_removed(status: StepStatus) -> None:
    with pytest.raises(InvalidTransition) as refusal:
        modified(make_plan(make_step(status), make_step()), RemoveStep(step_id(1)))
    assert refusal.value.details["from"] == status
    assert refusal.value.details["to"] == "removed"


def test_removing_the_last_open_step_completes_the_plan() -> None:
    done = modified(make_plan(make_step(S.COMPLETED), make_step()), RemoveStep(step_id(2)))
    assert done.plan.status is PlanStatus.COMPLETED


def test_only_step_of_a_plan_can_be_removed_until_the_plan_starts() -> None:
    begun = make_plan(make_step(), status=PlanStatus.EXECUTING)
    with pytest.raises(NotModifiable, match="needs at least one step"):
        modified(begun, RemoveStep(step_id(1)))
    emptied = modified(make_plan(make_step()), RemoveStep(step_id(1))).plan
    assert (emptied.steps, emptied.status) == ((), PlanStatus.PLANNING)


def test_step_that_a_condition_may_skip_to_cannot_be_removed() -> None:
    condition = make_condition(1, "true", BranchAction.SKIP_TO, target_step_id=step_id(3))
    plan = make_plan(make_step(), make_step(), make_step(), conditions=(condition,))
    with pytest.raises(NotModifiable) as refusal:
        modified(plan, RemoveStep(step_id(3)))
    assert refusal.value.details == {"conditionIds": ["c1"]}
    failed = make_plan(make_step(S.FAILED), make_step(), make_step(), conditions=(condition,))
    with pytest.raises(NotModifiable):
        modified(failed, RemoveStep(step_id(3)))


@pytest.mark.parametrize(
    ("first", "outcome", "target"),
    [(S.COMPLETED, BranchOutcome.NOT_FIRED, 2), (S.SKIPPED, None, 2), (S.PENDING, None, 1)],
)
def test_step_targeted_by_condition_that_cannot_fire_is_removable(
    first: StepStatus, outcome: BranchOutcome | None, target: int
) -> None:
    condition = make_condition(
        1, "true", BranchAction.SKIP_TO, target_step_id=step_id(target), outcome=outcome
    )
    plan = make_plan(make_step(first), make_step(), make_step(), conditions=(condition,))
    assert len(modified(plan, RemoveStep(step_id(target))).plan.steps) == 2


def test_steps_are_reordered_only_if_the_new_order_is_complete() -> None:
    plan = make_plan(make_step(), make_step(), make_step())
    done = modified(plan, ReorderSteps(ids(3, 1, 2)))
    assert [step.id for step in done.plan.steps] == ["s3", "s1", "s2"]
    with pytest.raises(StalePlan):
        modified(plan, ReorderSteps(ids(1, 2)))


@pytest.mark.parametrize("status", StepStatus)
def test_instructions_of_a_step_can_be_updated_in_any_status(status: StepStatus) -> None:
    plan = make_plan(make_step(status), make_step(), status=PlanStatus.EXECUTING)
    done = modified(plan, UpdateInstructions(step_id(1), "New."))
    assert done.plan.texts[step_id(1)].instructions == "New."
    (old,) = [change.old for change in changes_of(done) if change.field == "instructions"]
    assert old == "Look it up."
    assert done.touched == (step_id(1),)


def test_pending_step_becomes_in_progress_before_the_step_fails() -> None:
    done = modified(make_plan(make_step(), make_step()), FailStep(step_id(1), "No use."))
    assert moves_of(done, "s1") == [("pending", "in_progress"), ("in_progress", "failed")]
    assert events_of(done) == ["step_failed", "plan_modified"]
    assert done.plan.steps[0].fail_reason == "No use."
    assert done.plan.status is PlanStatus.EXECUTING


def test_failing_the_last_open_step_completes_the_plan() -> None:
    done = modified(
        make_plan(make_step(S.COMPLETED), make_step(S.IN_PROGRESS)), FailStep(step_id(2), "?")
    )
    assert done.plan.status is PlanStatus.COMPLETED
    with pytest.raises(WaybookError) as refusal:
        modified(done.plan, RetryStep(step_id(2)))
    assert refusal.value.code == "PLAN_TERMINAL"


def test_failing_a_step_with_a_wrong_attempt_raises_stale_attempt() -> None:
    plan = make_plan(make_step(S.IN_PROGRESS, held_by="ann", in_progress_since=NOON, attempt=2))
    modified(plan, FailStep(step_id(1), "?", attempt=2))
    for attempt in (1, 3):
        with pytest.raises(StaleAttempt) as refusal:
            modified(plan, FailStep(step_id(1), "?", attempt=attempt))
        assert refusal.value.details["currentAttempt"] == 2


def test_retrying_a_failed_step_makes_the_step_pending() -> None:
    plan = make_plan(
        make_step(S.FAILED, fail_reason="Lost.", held_by="ann", in_progress_since=NOON), make_step()
    )
    done = modified(plan, RetryStep(step_id(1)))
    step = done.plan.steps[0]
    assert (step.status, step.attempt, step.held_by, step.fail_reason) == (S.PENDING, 2, None, None)
    assert moves_of(done, "s1") == [("failed", "pending")]
    assert done.entries[0].details["reclaimedFrom"] is None


def test_retrying_a_step_in_progress_fails_the_step_before_reopening() -> None:
    done = modified(make_plan(make_step(S.IN_PROGRESS), make_step()), RetryStep(step_id(1)))
    assert moves_of(done, "s1") == [("in_progress", "failed"), ("failed", "pending")]
    assert done.plan.steps[0].attempt == 2
    assert done.entries[0].details["reclaimedFrom"] == ANN.user
    assert events_of(done) == ["plan_modified"]


@pytest.mark.parametrize("status", [S.PENDING, S.COMPLETED, S.SKIPPED])
def test_only_failed_or_running_steps_can_be_retried(status: StepStatus) -> None:
    with pytest.raises(InvalidTransition) as refusal:
        modified(make_plan(make_step(status), make_step()), RetryStep(step_id(1)))
    assert refusal.value.details["to"] == "pending"
    assert refusal.value.details["allowedFrom"] == ["failed", "in_progress"]


def test_failing_and_retrying_last_step_in_the_same_call_keeps_plan_open() -> None:
    plan = make_plan(make_step(S.COMPLETED), make_step(S.IN_PROGRESS))
    done = modified(plan, FailStep(step_id(2), "?"), RetryStep(step_id(2)))
    assert done.plan.status is PlanStatus.EXECUTING
    assert statuses(done.plan) == ["completed", "pending"]


def test_set_conditions_replaces_all_conditions_of_a_pending_step() -> None:
    plan = make_plan(make_step(), make_step(), conditions=(make_condition(1, "true"),))
    new = NewCondition(expression="result == 1", action=BranchAction.SKIP_TO, target_step_order=2)
    done = modified(plan, SetConditions(step_id(1), (new,)))
    (condition,) = done.plan.conditions
    assert condition.expression == "result == 1"
    assert condition.target_step_id == step_id(2)
    assert done.entries[-1].details["removedIds"] == ["c1"]
    none = modified(done.plan, SetConditions(step_id(1), ()))
    assert none.plan.conditions == ()


def test_setting_conditions_of_a_started_step_raises_invalid_transition() -> None:
    plan = make_plan(make_step(S.IN_PROGRESS))
    with pytest.raises(InvalidTransition, match="pending"):
        modified(plan, SetConditions(step_id(1), ()))


def test_modification_after_cancel_plan_is_refused() -> None:
    plan = make_plan(make_step())
    with pytest.raises(PlanTerminal, match="last"):
        modified(plan, CancelPlan("enough"), RetryStep(step_id(1)))


@pytest.mark.parametrize("status", [None, PlanStatus.STALLED, PlanStatus.AWAITING_REVIEW])
def test_cancel_plan_ends_an_open_plan_permanently(status: PlanStatus | None) -> None:
    waiting = status is PlanStatus.AWAITING_REVIEW
    step = make_step(S.AWAITING_INPUT if waiting else S.IN_PROGRESS)
    plan = make_plan(step, make_step(), status=status, review=make_review(1) if waiting else None)
    done = modified(plan, CancelPlan("no longer needed"))
    assert done.plan.status is PlanStatus.FAILED
    assert done.plan.fail_reason == "no longer needed"
    assert done.plan.statuses() == plan.statuses()
    assert done.entries[-1].details["action"] == "cancel_plan"
