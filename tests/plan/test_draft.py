import pytest

from plan_builders import (
    NOON,
    make_condition,
    make_context,
    make_new_step,
    make_plan,
    make_review,
    make_step,
    step_id,
)
from waybook.core.changes import Event
from waybook.errors import InvalidTransition
from waybook.plan.draft import Draft, condition_row, step_row
from waybook.plan.model import BranchAction, PlanStatus, StepStatus, StepText

S = StepStatus


def make_draft(*steps: StepStatus) -> Draft:
    return Draft(make_plan(*map(make_step, steps)), make_context())


def test_plan_change_without_audit_entry_raises_assertion_error() -> None:
    draft = make_draft(S.PENDING)
    draft.move_step(step_id(1), S.IN_PROGRESS)
    with pytest.raises(AssertionError, match=r"step\.status"):
        draft.decide(None)


def test_audit_entries_of_a_plan_change_are_numbered_without_gaps() -> None:
    draft = make_draft(S.PENDING)
    draft.move_step(step_id(1), S.IN_PROGRESS)
    draft.record(Event.STEP_STARTED, stepId="s1")
    draft.record(Event.PLAN_MODIFIED)
    decided = draft.decide(None)
    assert decided.plan.seq == 5 + 2
    assert [change.field for change in decided.entries[0].changes] == [
        "status",
        "in_progress_since",
    ]
    assert decided.entries[1].changes == ()


def test_status_change_that_is_not_allowed_raises_invalid_transition() -> None:
    draft = make_draft(S.PENDING)
    with pytest.raises(InvalidTransition):
        draft.move_step(step_id(1), S.COMPLETED)
    with pytest.raises(InvalidTransition):
        draft.move_plan(PlanStatus.COMPLETED)


@pytest.mark.parametrize("end", [S.COMPLETED, S.SKIPPED])
def test_completed_or_skipped_step_gets_a_completion_time(end: StepStatus) -> None:
    draft = make_draft(S.AWAITING_INPUT)
    draft.move_step(step_id(1), end)
    assert draft.plan.step(step_id(1)).completed_at == NOON


def test_setting_unchanged_values_records_no_change_in_the_audit() -> None:
    draft = make_draft(S.PENDING)
    draft.set_plan(revision=1)
    draft.set_step(step_id(1), attempt=1)
    draft.set_instructions(step_id(1), "Look it up.")
    draft.set_result(step_id(1), result_summary=None)
    draft.set_review(make_review(1), feedback=None)
    assert draft.decide(None).entries == ()


def test_audited_rows_omit_ids_and_last_seen_time() -> None:
    row = step_row(make_step(last_seen_at=NOON), StepText(instructions="Go.", result_schema={}))
    assert row["instructions"] == "Go."
    assert row["result_schema"] == {}
    assert {"id", "last_seen_at"}.isdisjoint(row)
    condition = make_condition(1, "true", BranchAction.ADD_STEPS, steps=(make_new_step("More."),))
    added = condition_row(condition)["steps"]
    assert isinstance(added, list)
    assert added == [
        {
            "type": "search",
            "instructions": "More.",
            "title": None,
            "stall_seconds": None,
            "result_schema": None,
        }
    ]
    assert condition_row(make_condition(1, "true"))["steps"] is None
