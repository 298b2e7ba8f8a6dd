"""The states that people see, from stored statuses and the facts beside them."""

import pytest

from waybook.core.shown import ENDED, LOOKS, Shown, shown, shown_group, shown_item, shown_plan
from waybook.dag.model import JobStatus, ProgressStatus, RunState
from waybook.plan.model import PlanState, StepStatus

STATUSES = (*PlanState, *StepStatus, *JobStatus, *RunState, *ProgressStatus)


@pytest.mark.parametrize("status", STATUSES)
def test_every_stored_status_has_a_state(status: str) -> None:
    assert shown(status) is not Shown.UNKNOWN


def test_states_have_distinct_words() -> None:
    assert LOOKS.keys() == {*Shown}
    assert len({look.word for look in LOOKS.values()}) == len(Shown)


def test_unknown_status_is_shown_as_unknown() -> None:
    assert (shown("strange"), shown(None)) == (Shown.UNKNOWN, Shown.UNKNOWN)


@pytest.mark.parametrize("status", [*StepStatus, *JobStatus])
def test_open_step_or_job_is_canceled_with_the_plan_or_run(status: str) -> None:
    state = shown_item(status, is_over=True)
    assert state is (shown(status) if shown(status) in ENDED else Shown.CANCELED)


def test_step_without_a_holder_is_ready_and_never_stalled() -> None:
    assert shown_item("in_progress", is_held=False, is_silent=True) is Shown.READY
    assert shown_item("in_progress", is_silent=True) is Shown.STALLED
    assert shown_item("in_progress") is Shown.RUNNING


@pytest.mark.parametrize("status", ["pending", "retrying", "waiting"])
def test_waiting_job_is_ready_as_soon_as_agents_can_claim(status: str) -> None:
    assert shown_item(status, is_ready=True) is Shown.READY
    assert shown_item(status, is_ready=False) is Shown.BLOCKED
    assert shown_item(status) is Shown.TODO


@pytest.mark.parametrize("state", PlanState)
def test_open_plan_without_a_holder_is_ready(state: PlanState) -> None:
    is_open = state in {PlanState.PLANNING, PlanState.EXECUTING, PlanState.STALLED}
    assert (shown_plan(state, is_held=False) is Shown.READY) is is_open
    assert shown_plan(state, is_held=True) is shown(state)


def test_group_with_failed_jobs_is_failed_once_nothing_goes_on() -> None:
    assert shown_group("failed", goes_on=True) is Shown.RUNNING
    assert shown_group("failed", goes_on=False) is Shown.FAILED
    assert shown_group("failed", goes_on=True, is_over=True) is Shown.CANCELED
    assert shown_group("completed", goes_on=False, is_over=True) is Shown.DONE
