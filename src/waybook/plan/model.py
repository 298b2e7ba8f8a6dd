"""Data model of a plan: states, steps, conditions, reviews, budget, and size limits.

The state machines of plans and steps are tables. A status changes only by a transition in these
tables.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NewType, TypedDict

from waybook.core.decision_context import Channel, Holder
from waybook.core.usage import NO_USAGE, Totals
from waybook.errors import InvalidTransition, NotFound
from waybook.json_values import Json


class PlanStatus(StrEnum):
    PLANNING = "planning"
    EXECUTING = "executing"
    AWAITING_REVIEW = "awaiting_review"
    STALLED = "stalled"
    COMPLETED = "completed"
    FAILED = "failed"


class PlanState(StrEnum):
    """Status of a plan on pages and in lists. A canceled plan has the stored status `failed`."""

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
#: Statuses in which a plan can be modified. A stalled plan is first resumed.
MODIFIABLE = frozenset({P.PLANNING, P.EXECUTING, P.STALLED})
#: Statuses of steps that need no further work, whether or not they succeeded.
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
    """Return the status of a plan that has steps with these statuses.

    A plan is completed when each of its steps is completed, skipped or failed.

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


PlanId = NewType("PlanId", str)
StepId = NewType("StepId", str)
ConditionId = NewType("ConditionId", str)
ReviewId = NewType("ReviewId", str)

#: Maximum seconds that a call may wait for work. Many clients and proxies end a call after 60
#: seconds.
MAX_WAIT_SECONDS = 55


class StepType(StrEnum):
    """Kind of work in a step. Special rules exist for checkpoints only."""

    SEARCH = "search"
    EXTRACT = "extract"
    ANALYZE = "analyze"
    CRITIQUE = "critique"
    SYNTHESIZE = "synthesize"
    CHECKPOINT = "checkpoint"
    CUSTOM = "custom"


class BranchAction(StrEnum):
    CONTINUE = "continue"
    SKIP_TO = "skip_to"
    ADD_STEPS = "add_steps"
    REPEAT = "repeat"
    FAIL = "fail"


#: Actions that add steps to the plan.
GROWING = frozenset({BranchAction.ADD_STEPS, BranchAction.REPEAT})


class OnExhausted(StrEnum):
    """Action to take if a `repeat` condition is still true after the last repetition."""

    CONTINUE = "continue"
    REVIEW = "review"
    FAIL = "fail"


class BranchOutcome(StrEnum):
    FIRED = "fired"
    NOT_FIRED = "not_fired"
    ERROR = "error"


class DecisionKind(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    MODIFY = "modify"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStep:
    """A requested step, before it has an id and a position in the plan."""

    type: StepType
    instructions: str
    title: str | None = None
    stall_seconds: int | None = None
    result_schema: Json = None
    depends_on: tuple[int, ...] = ()
    #: Dependencies as step ids. Only a step that a condition may add later has them. Other new
    #: steps have positions in `depends_on`.
    depends_on_ids: tuple[StepId, ...] = ()
    #: Minimum number of sources for the step's result; None if none are required.
    required_sources: int | None = None
    #: The step fails when this many holders have stopped responding. None uses the default.
    max_attempts: int | None = None
    #: Files and named resources that the step changes, as one glob per line.
    touches: str | None = None
    conditions: tuple["NewCondition", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCondition:
    """A requested branching condition. It refers to steps by their positions."""

    expression: str
    action: BranchAction
    #: Position of the step that has the condition. None if the step is created in the same call.
    after_step_order: int | None = None
    target_step_order: int | None = None
    steps: tuple[NewStep, ...] = ()
    reason: str | None = None
    #: First step to repeat. None repeats only the step that has the condition.
    from_step_order: int | None = None
    max_repeats: int | None = None
    on_exhausted: OnExhausted | None = None
    #: Ids of the steps at `target_step_order` and `from_step_order`. Conditions are stored with
    #: ids, because positions change when steps are added or removed.
    target_step_id: StepId | None = None
    from_step_id: StepId | None = None


class Step(NamedTuple):
    """A step without its result. Its instructions are in `Plan.texts`."""

    id: StepId
    order: int
    type: StepType
    title: str | None
    status: StepStatus
    attempt: int
    stall_seconds: int | None
    #: Time at which the step last became `in_progress`.
    in_progress_since: datetime | None = None
    #: Time of the last heartbeat. Heartbeats are not recorded in the audit.
    last_seen_at: datetime | None = None
    completed_at: datetime | None = None
    held_by: str | None = None
    held_session: str | None = None
    fail_reason: str | None = None
    depends_on: tuple[StepId, ...] = ()
    #: The step fails when this many holders have stopped responding. None uses the default.
    max_attempts: int | None = None
    silent_holders: int | None = None
    #: In a copied plan: the step of the original plan that this step is a copy of.
    copied_from: StepId | None = None
    #: Set if another agent changed the instructions after the holder got them: the value of
    #: `Plan.revision` before this change.
    answers_revision: int | None = None
    #: Files and named resources that the step changes, as one glob per line. While an agent has the
    #: step, no step with overlapping globs is handed out.
    touches: str | None = None

    @property
    def holder(self) -> Holder | None:
        if self.held_by is None or self.status is not StepStatus.IN_PROGRESS:
            return None
        return Holder(self.held_by, self.held_session)

    @property
    def touched(self) -> list[Json]:
        return [*self.touches.split("\n")] if self.touches else []

    @property
    def is_carried_over(self) -> bool:
        """Return whether the step was copied from another plan together with its result."""
        is_copied = self.copied_from is not None and self.in_progress_since is None
        return is_copied and self.status is StepStatus.COMPLETED


#: Fields that a `Step` takes over unchanged from its `NewStep`, and that copies of the step get
#: too.
KEPT_FIELDS: Final = tuple(
    f.name for f in fields(NewStep) if f.name in Step._fields and f.name != "depends_on"
)


#: Fields that a `StepText` takes over unchanged from its `NewStep`.
TEXT_FIELDS: Final = ("instructions", "result_schema", "required_sources")


def fields_of(record: object, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    id: str
    title: str
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepText:
    instructions: str
    result_schema: Json = None
    required_sources: int | None = None
    #: Sources that count toward `required_sources`. They are loaded only if the step requires
    #: sources.
    sources: tuple[StoredSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    id: ConditionId
    step_id: StepId
    position: int
    expression: str
    action: BranchAction
    target_step_id: StepId | None = None
    steps: tuple[NewStep, ...] = ()
    reason: str | None = None
    outcome: BranchOutcome | None = None
    #: First step to repeat. None repeats only the step that has the condition.
    from_step_id: StepId | None = None
    max_repeats: int | None = None
    repeats: int | None = None
    #: Action to take if the condition is still true after the last repetition. None means that the
    #: plan continues.
    on_exhausted: OnExhausted | None = None
    cause: "Cause | None" = field(default=None, hash=False)

    @property
    def is_exhausted(self) -> bool:
        """Return whether the condition was still true after the last repetition."""
        is_last = (self.repeats or 0) >= (self.max_repeats or 0)
        is_loop = self.action is BranchAction.REPEAT
        return is_loop and is_last and self.outcome is BranchOutcome.FIRED


class Cause(TypedDict):
    """Reason for repeating steps, and the copies that were made."""

    #: Values that made the condition true, by their paths such as `result.score`.
    values: dict[str, Json]
    #: Maps each copied step to the step that it was copied from.
    copies: dict[str, str]


class Review(NamedTuple):
    """A review of a step, and the decision once a person has made it."""

    id: ReviewId
    step_id: StepId
    summary: str
    questions: tuple[str, ...]
    result_summary: Json
    requested_at: datetime
    requested_by: str
    decision: DecisionKind | None = None
    feedback: str | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    decided_via: Channel | None = None
    requested_as: str | None = None
    decided_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits on tokens and cost (in millionths of a dollar). They only cause warnings."""

    tokens: int | None = None
    cost_micros: int | None = None

    def as_json(self) -> dict[str, Json]:
        return {"tokens": self.tokens, "cost_micros": self.cost_micros}


class Plan(NamedTuple):
    """A plan as loaded for a call.

    All steps are loaded, but texts, conditions and reviews only if the call needs them.
    """

    id: PlanId
    name: str
    status: PlanStatus
    revision: int
    stall_seconds: int | None
    resumed_at: datetime | None
    fail_reason: str | None
    seq: int
    steps: tuple[Step, ...]
    texts: Mapping[StepId, StepText] = MappingProxyType({})
    conditions: tuple[Condition, ...] = ()
    review: Review | None = None
    sessions: frozenset[str] = frozenset()
    usage: Totals = NO_USAGE
    budget: Budget | None = None
    created_by: str | None = None
    created_at: datetime | None = None
    #: Set only for a copy: the original plan, and the number of the audit entry up to which it was
    #: copied.
    copied_from: PlanId | None = None
    copied_seq: int | None = None
    #: Whether a step without dependencies waits for all steps before it.
    sequential: bool = False
    #: True if a person or agent canceled the plan; otherwise None.
    canceled: bool | None = None

    @property
    def state(self) -> PlanState:
        return plan_state(self.status, canceled=self.canceled)

    def statuses(self) -> list[StepStatus]:
        return [step.status for step in self.steps]

    def step(self, step_id: StepId) -> Step:
        for step in self.steps:
            if step.id == step_id:
                return step
        raise NotFound("this plan has no such step", stepId=step_id, planId=self.id)

    def steps_with_status(self, *statuses: StepStatus) -> Iterator[Step]:
        return (step for step in self.steps if step.status in statuses)

    def pending_conditions(self) -> Iterator[Condition]:
        return (condition for condition in self.conditions if condition.outcome is None)

    def has_dependencies(self) -> bool:
        return any(step.depends_on for step in self.steps)


class Output(NamedTuple):
    id: str
    title: str
    media_type: str
    version: int
    content_hash: str
    created_at: datetime
    created_by: str


MAX_STEPS = 200
MAX_CONDITIONS = 50
DEFAULT_MAX_ATTEMPTS = 3
MAX_REPEATS = 100
#: Maximum nesting of conditions: a condition may add steps that have conditions themselves.
MAX_CONDITION_DEPTH = 3
MAX_OUTPUTS = 200
MAX_TOUCHES = 20
MAX_TOUCH_LENGTH = 200
MAX_REQUIRED_SOURCES = 50


class Round(NamedTuple):
    """One pass through repeated steps. The first pass, before any repetition, has the number 1."""

    #: Number of this pass: 2 for the first repetition.
    number: int
    #: Maximum number of passes, reached if the condition stays true.
    most: int
    #: The `repeat` condition that caused this pass.
    condition: Condition
    values: Mapping[str, Json]
    #: For each repeated step: its copy in this pass if the copy is finished, otherwise the
    #: original.
    latest: tuple[Step, ...]
