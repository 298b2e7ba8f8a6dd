import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import (
    changes_of,
    events_of,
    make_condition,
    make_context,
    make_new_step,
    make_plan,
    make_review,
    make_step,
    moves_of,
    statuses,
    step_id,
)
from waybook.conditions.values import BUDGET, Budget
from waybook.json_values import Json
from waybook.plan.branching import variables
from waybook.plan.create import NewPlan, create
from waybook.plan.draft import Decision
from waybook.plan.model import (
    MAX_CONDITIONS,
    MAX_STEPS,
    BranchAction,
    BranchOutcome,
    Condition,
    DecisionKind,
    NewCondition,
    Plan,
    PlanStatus,
    StepId,
    StepStatus,
)
from waybook.plan.modify import ReorderSteps, modify
from waybook.plan.review import decide
from waybook.plan.submit import StepDone, Submission, submit

S = StepStatus


def skip_to(target: int, after: int = 1, expression: str = "true") -> Condition:
    return make_condition(after, expression, BranchAction.SKIP_TO, target_step_id=step_id(target))


def make_running_plan(*conditions: Condition, others: int = 3) -> Plan:
    """Return a plan whose first step is in progress."""
    rest = [make_step()] * others
    return make_plan(make_step(S.IN_PROGRESS), *rest, conditions=conditions)


def submitted(plan: Plan, result: Json = None) -> Decision[StepDone]:
    return submit(plan, step_id(1), Submission(result_summary=result), make_context())


def test_continue_condition_is_recorded_but_changes_no_step() -> None:
    done = submitted(make_running_plan(make_condition(1, "true")))
    assert statuses(done.plan) == ["completed", "pending", "pending", "pending"]
    assert done.entries[0].details["branches"] == [
        {"action": "continue", "conditionId": "c1", "expression": "true", "outcome": "fired"}
    ]


def test_skip_to_condition_does_not_skip_a_step_in_progress() -> None:
    plan = make_plan(
        make_step(S.IN_PROGRESS),
        make_step(S.IN_PROGRESS),
        make_step(),
        make_step(),
        conditions=(skip_to(4),),
    )
    assert statuses(submitted(plan).plan) == ["completed", "in_progress", "skipped", "pending"]


def test_skip_to_condition_with_an_earlier_target_skips_no_step() -> None:
    done = submitted(make_running_plan(skip_to(1)))
    assert statuses(done.plan) == ["completed", "pending", "pending", "pending"]
    assert done.reply.branches[0].outcome is BranchOutcome.FIRED
    assert "is not after this step" in str(done.entries[0].details["branches"])


def test_skip_to_condition_with_a_missing_target_skips_no_step() -> None:
    done = submitted(make_running_plan(skip_to(9)))
    assert done.reply.branches[0].skipped == ()
    assert done.reply.branches[0].note is not None


def test_add_steps_condition_inserts_steps_after_the_completed_step() -> None:
    more = make_condition(1, "true", BranchAction.ADD_STEPS, steps=(make_new_step("More."),))
    plan = make_running_plan(more)
    done = submitted(plan)
    assert statuses(done.plan) == ["completed", *["pending"] * 4]
    added = done.plan.steps[1]
    assert done.reply.branches[0].added == (added.id,)
    assert done.plan.texts[added.id].instructions == "More."
    assert done.plan.revision == plan.revision + 1


def test_add_steps_condition_beyond_the_step_limit_has_outcome_error() -> None:
    more = make_condition(1, "true", BranchAction.ADD_STEPS, steps=(make_new_step(),))
    done = submitted(make_running_plan(more, others=MAX_STEPS - 1))
    assert done.reply.branches[0].outcome is BranchOutcome.ERROR
    assert len(done.plan.steps) == MAX_STEPS


def test_fail_condition_fails_plan_in_the_same_audit_entry() -> None:
    done = submitted(
        make_running_plan(make_condition(1, "true", BranchAction.FAIL, reason="Enough."))
    )
    assert events_of(done) == ["step_completed"]
    assert done.plan.status is PlanStatus.FAILED
    assert done.plan.fail_reason == "Enough."
    assert moves_of(done, "p") == [("executing", "failed")]
    assert moves_of(done, "s1") == [("in_progress", "completed")]


def test_fail_condition_leaves_other_steps_unchanged() -> None:
    fail = make_condition(1, "true", BranchAction.FAIL)
    plan = make_plan(
        make_step(S.IN_PROGRESS), make_step(S.IN_PROGRESS), make_step(), conditions=(fail,)
    )
    done = submitted(plan)
    assert done.plan.steps[1:] == plan.steps[1:]
    assert done.plan.fail_reason == "condition held: true"


def test_condition_on_a_missing_result_field_has_outcome_error() -> None:
    done = submitted(make_running_plan(skip_to(4, expression="result.found > 3")), {"lost": 1})
    (looked_at,) = done.reply.branches
    assert looked_at.outcome is BranchOutcome.ERROR
    assert looked_at.error is not None
    assert "error" in str(done.entries[0].details["branches"])


def test_conditions_are_evaluated_in_creation_order_until_the_plan_fails() -> None:
    done = submitted(
        make_running_plan(
            skip_to(3),
            make_condition(1, "plan.done == 2", BranchAction.FAIL),
            make_condition(1, "true", BranchAction.ADD_STEPS, steps=(make_new_step(),)),
        )
    )
    assert [str(b.condition.action) for b in done.reply.branches] == ["skip_to", "fail"]
    assert [condition.outcome for condition in done.plan.conditions] == ["fired", "fired", None]
    assert len(done.plan.steps) == 4


def test_evaluated_condition_is_not_evaluated_again() -> None:
    looked_at = make_condition(1, "true", BranchAction.FAIL, outcome=BranchOutcome.NOT_FIRED)
    done = submitted(make_running_plan(looked_at))
    assert done.reply.branches == ()
    assert "branches" not in done.entries[0].details


def test_cheap_condition_fires_even_after_too_expensive_conditions() -> None:
    dear = "result.all(x, result.all(y, result.all(z, x + y + z >= 0)))"
    conditions = [
        make_condition(1, dear if number < MAX_CONDITIONS - 1 else "size(result) == 100")
        for number in range(MAX_CONDITIONS)
    ]
    spent: list[int] = []

    def spend(budget: Budget, cost: int, at: int) -> None:
        spent.append(min(cost, budget.left))
        pay(budget, cost, at)

    pay = Budget.spend
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Budget, "spend", spend)
        done = submitted(make_running_plan(*conditions), list(range(100)))
    *errors, last = done.reply.branches
    assert sum(spent) <= BUDGET
    assert {branch.outcome for branch in errors} == {BranchOutcome.ERROR}
    assert all("too expensive" in str(branch.error) for branch in errors)
    assert last.outcome is BranchOutcome.FIRED
    assert statuses(done.plan)[0] == S.COMPLETED


def test_completing_a_step_evaluates_only_conditions_of_that_step() -> None:
    done = submitted(make_running_plan(make_condition(2, "true", BranchAction.FAIL)))
    assert done.plan.status is PlanStatus.EXECUTING
    assert not [change for change in changes_of(done) if change.entity == "condition"]


@pytest.mark.parametrize(
    ("action", "status"), [(BranchAction.FAIL, "failed"), (BranchAction.CONTINUE, "executing")]
)
def test_approval_of_a_step_evaluates_conditions_on_the_reviewed_result(
    action: BranchAction, status: str
) -> None:
    condition = make_condition(1, "result == 7 && confidence == null", action)
    plan = make_plan(
        make_step(S.AWAITING_INPUT),
        make_step(),
        conditions=(condition,),
        review=make_review(1, result_summary=7),
    )
    done = decide(plan, DecisionKind.APPROVE, make_context())
    assert done.reply.branches[0].outcome is BranchOutcome.FIRED
    assert done.plan.status == status
    assert "branches" in done.entries[0].details


def test_condition_variables_include_the_result_the_step_and_the_counts() -> None:
    plan = make_plan(make_step(S.COMPLETED), make_step(S.FAILED), make_step(S.SKIPPED, attempt=2))
    values: dict[str, Json] = {
        "result_summary": 1,
        "confidence": 0.5,
        "report": {"a": 1},
        "usage": 3,
    }
    assert variables(plan, plan.steps[2], values) == {
        "result": 1,
        "confidence": 0.5,
        "report": {"a": 1},
        "step": {"order": 3, "type": "search", "attempt": 2, "round": 1},
        "plan": {"done": 2, "total": 3, "failed": 1},
    }


@given(data=st.data(), count=st.integers(2, 12))
def test_skip_to_condition_after_reordering_skips_the_steps_between(
    data: st.DataObject, count: int
) -> None:
    target = data.draw(st.integers(2, count))
    skip = NewCondition(
        after_step_order=1, expression="true", action=BranchAction.SKIP_TO, target_step_order=target
    )
    new = NewPlan(
        name="Any", research_question="Why?", steps=(make_new_step(),) * count, conditions=(skip,)
    )
    plan = create(new, make_context()).plan
    first, aimed = plan.steps[0].id, plan.steps[target - 1].id
    order: list[StepId] = data.draw(st.permutations([step.id for step in plan.steps]))
    plan = modify(plan, (ReorderSteps(tuple(order)),), make_context()).plan
    done = submit(plan, first, Submission(result_summary=0), make_context()).plan
    between = order[order.index(first) + 1 : order.index(aimed)]
    assert [step.id for step in done.steps_with_status(StepStatus.SKIPPED)] == between
