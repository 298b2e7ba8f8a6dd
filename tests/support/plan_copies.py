"""Check that the plan rule `copy_plan` makes valid plans, which a replay can rebuild."""

from collections.abc import Iterable, Iterator

from plan_builders import BOB, make_context
from plan_invariants import check_state, known_rows, rows_of
from waybook.core.changes import Rows, replay
from waybook.errors import NotModifiable
from waybook.plan.copy import CopiedPlan, copy_plan
from waybook.plan.model import DONE_STEP, Plan, StepStatus


def check_copies(plans: Iterable[Plan]) -> int:
    """Copy each plan with its results and without; check the copies, and return their number."""
    copies = 0
    for plan in plans:
        for up_to in (None, 0):
            is_refused = all(s.status in DONE_STEP and up_to is None for s in plan.steps)
            copies += not is_refused
            try:
                _check_copy(plan, up_to)
            except NotModifiable:
                assert is_refused, plan
            else:
                assert not is_refused, plan
    return copies


def _check_copy(plan: Plan, up_to: int | None) -> None:
    source = CopiedPlan(id=plan.id, seq=plan.seq, rows=_rows(plan), up_to_step=up_to)
    decision = copy_plan(source, make_context(BOB))
    copy = decision.plan
    check_state(copy)
    (entry,) = decision.entries
    steps = known_rows(replay(entry.changes))["step"]
    assert steps == known_rows(rows_of(copy))["step"]
    assert [*_expected(plan, up_to)] == copy.statuses()
    assert not {step.id for step in copy.steps} & {step.id for step in plan.steps}


def _rows(plan: Plan) -> Rows:
    rows = rows_of(plan)
    rows["plan"][plan.id]["research_question"] = "Which river is longest?"
    return rows


def _expected(plan: Plan, up_to: int | None) -> Iterator[StepStatus]:
    for step in plan.steps:
        is_carried = step.status in DONE_STEP and up_to is None
        yield step.status if is_carried else StepStatus.PENDING
