"""State machines of plans and steps as tables.

A status changes only by a transition in these tables.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType

from waybook.errors import InvalidTransition


class PlanStatus(StrEnum):
    PLANNING = "planning"
    EXECUTING = "executing"
    AWAITING_REVIEW = "awaiting_review"
    STALLED = "stalled"
    COMPLETED = "completed"
    FAILED = "failed"


class PlanState(StrEnum):
    """Status of a plan as pages and lists show it. A canceled plan is stored as failed."""

    PLANNING = "planning"
    EXECUTING = "executing"
    AWAITING_REVIEW = "awaiting_review"
    STALLED = "stalled"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


def plan_state(status: object, *, canceled: object) -> PlanState:
    return PlanState.CANCELED if canceled else PlanState(str(status))


class StepStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    AWAITING_INPUT = "awaiting_input"
    COMPLETED = "completed"
    SKIPPED = "skipped"
    FAILED = "failed"


P = PlanStatus
S = StepStatus

# fmt: off
PLAN_MOVES: Mapping[PlanStatus, frozenset[PlanStatus]] = MappingProxyType({
    P.PLANNING:        frozenset({P.EXECUTING, P.FAILED}),
    P.EXECUTING:       frozenset({P.AWAITING_REVIEW, P.STALLED, P.COMPLETED, P.FAILED}),
    P.AWAITING_REVIEW: frozenset({P.EXECUTING, P.FAILED}),
    P.STALLED:         frozenset({P.EXECUTING, P.FAILED}),
    P.COMPLETED:       frozenset(),
    P.FAILED:          frozenset(),
})

STEP_MOVES: Mapping[StepStatus, frozenset[StepStatus]] = MappingProxyType({
    S.PENDING:         frozenset({S.IN_PROGRESS, S.SKIPPED}),
    S.IN_PROGRESS:     frozenset({S.AWAITING_INPUT, S.COMPLETED, S.FAILED}),
    S.AWAITING_INPUT:  frozenset({S.IN_PROGRESS, S.COMPLETED, S.SKIPPED, S.FAILED}),
    S.COMPLETED:       frozenset(),
    S.SKIPPED:         frozenset(),
    S.FAILED:          frozenset({S.PENDING}),  # retry
})
# fmt: on

CLOSED_PLAN = frozenset({P.COMPLETED, P.FAILED})
#: A stalled plan is resumed before it is modified.
MODIFIABLE = frozenset({P.PLANNING, P.EXECUTING, P.STALLED})
OPEN_STATES = frozenset(PlanState) - {*CLOSED_PLAN, PlanState.CANCELED}
#: Steps that need no further work, whether or not they succeeded.
TERMINAL_STEP = frozenset({S.COMPLETED, S.SKIPPED, S.FAILED})
DONE_STEP = frozenset({S.COMPLETED, S.SKIPPED})


def can_move_plan(old: PlanStatus, new: PlanStatus) -> bool:
    return new in PLAN_MOVES[old]


def can_move_step(old: StepStatus, new: StepStatus) -> bool:
    return new in STEP_MOVES[old]


def move_plan(old: PlanStatus, new: PlanStatus) -> PlanStatus:
    """Return the new plan status, or raise an error if the change is not allowed.

    >>> move_plan(PlanStatus.PLANNING, PlanStatus.EXECUTING)
    <PlanStatus.EXECUTING: 'executing'>

    Raises:
        InvalidTransition: the table has no edge from `old` to `new`.
    """
    if not can_move_plan(old, new):
        raise InvalidTransition(f"a plan cannot move from {old} to {new}", old=old, new=new)
    return new


def move_step(old: StepStatus, new: StepStatus) -> StepStatus:
    if not can_move_step(old, new):
        raise InvalidTransition(f"a step cannot move from {old} to {new}", old=old, new=new)
    return new


def derive_plan_status(steps: Collection[StepStatus]) -> PlanStatus:
    """Derive a plan's status from its steps' statuses, by the first rule that applies.

    A failed step is finished, like a completed one: a plan with failed steps is completed, not
    failed.

    >>> derive_plan_status([StepStatus.FAILED, StepStatus.AWAITING_INPUT])
    <PlanStatus.AWAITING_REVIEW: 'awaiting_review'>
    >>> derive_plan_status([StepStatus.COMPLETED, StepStatus.FAILED, StepStatus.SKIPPED])
    <PlanStatus.COMPLETED: 'completed'>
    """
    if not steps:
        return PlanStatus.PLANNING
    if StepStatus.AWAITING_INPUT in steps:
        return PlanStatus.AWAITING_REVIEW
    if TERMINAL_STEP.issuperset(steps):
        return PlanStatus.COMPLETED
    return PlanStatus.EXECUTING
