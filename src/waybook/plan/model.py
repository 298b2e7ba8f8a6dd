"""Data model of a plan: steps, conditions, reviews, budget, and size limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, NewType

from waybook.core.decision_context import Channel
from waybook.core.holder import Holder
from waybook.core.usage import NO_USAGE, Totals
from waybook.errors import NotFound
from waybook.json_values import Json
from waybook.plan.states import PlanStatus, StepStatus

PlanId = NewType("PlanId", str)
StepId = NewType("StepId", str)
ConditionId = NewType("ConditionId", str)
ReviewId = NewType("ReviewId", str)


class StepType(StrEnum):
    """Kind of work that a step does. Only checkpoints have rules of their own."""

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


class BranchOutcome(StrEnum):
    """Outcome of a condition, which is evaluated when its step completes."""

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
    """Step that a call requests, before the step has an id and a position in the plan."""

    type: StepType
    instructions: str
    title: str | None = None
    stall_seconds: int | None = None
    result_schema: Json = None
    #: Order numbers of the steps that this step depends on.
    depends_on: tuple[int, ...] = ()
    #: Minimum number of sources on which the step's result must be based; None if no sources are
    #: required.
    required_sources: int | None = None
    #: Maximum number of holders that stop responding before the step fails; None for the default.
    max_attempts: int | None = None
    #: Conditions to evaluate when the step completes.
    conditions: tuple["NewCondition", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCondition:
    """Requested branching condition, which refers to steps by their position in the plan."""

    expression: str
    action: BranchAction
    #: Position of the step after which the condition is evaluated; None if the condition is
    #: requested together with its step.
    after_step_order: int | None = None
    target_step_order: int | None = None
    steps: tuple[NewStep, ...] = ()
    reason: str | None = None
    #: First step of the range that `repeat` copies; the last step of the range is the condition's
    #: own step. None if only the condition's own step is copied.
    from_step_order: int | None = None
    max_repeats: int | None = None
    #: Ids of the target step and of the first step of the range, once their positions are resolved.
    #: The condition of a step that a branch may add later is stored with ids, because positions
    #: change.
    target_step_id: StepId | None = None
    from_step_id: StepId | None = None


class Step(NamedTuple):
    """State of one step, without its result; its texts are in `Plan.texts`."""

    id: StepId
    order: int
    type: StepType
    title: str | None
    status: StepStatus
    attempt: int
    stall_seconds: int | None
    #: Time at which the step last changed to in_progress. Earlier waiting for a person is therefore
    #: not counted as work.
    in_progress_since: datetime | None
    #: Time of the last heartbeat. It is telemetry, so it is neither recorded in the audit nor
    #: rebuilt from it.
    last_seen_at: datetime | None
    completed_at: datetime | None
    held_by: str | None
    held_session: str | None
    fail_reason: str | None
    #: Ids of the steps that this step depends on.
    depends_on: tuple[StepId, ...] = ()
    #: Maximum number of holders that stop responding before the step fails; None for the default.
    max_attempts: int | None = None
    #: Number of holders that were replaced because they stopped responding; None if there was none.
    silent_holders: int | None = None
    #: Id of the step in another plan from which this step's result was copied.
    copied_from: StepId | None = None

    @property
    def holder(self) -> Holder | None:
        """Holder of the step's current attempt; None if not in progress or not assigned."""
        if self.held_by is None or self.status is not StepStatus.IN_PROGRESS:
            return None
        return Holder(self.held_by, self.held_session)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """Source stored for a step, with its id, title and URL."""

    id: str
    title: str
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepText:
    instructions: str
    result_schema: Json = None
    required_sources: int | None = None
    #: Stored sources of the step that are counted toward the required number of sources. They are
    #: loaded only if the step requires sources.
    sources: tuple[StoredSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Branching condition, evaluated when its step completes."""

    id: ConditionId
    step_id: StepId
    position: int
    expression: str
    action: BranchAction
    target_step_id: StepId | None = None
    steps: tuple[NewStep, ...] = ()
    reason: str | None = None
    outcome: BranchOutcome | None = None
    #: First step of the range that `repeat` copies; None if only the condition's step is copied.
    from_step_id: StepId | None = None
    max_repeats: int | None = None
    #: Number of copies of the range that existed when this condition was created; None for the
    #: original range.
    repeats: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Review: a step's pause until a person decides, and the decision once it is made."""

    id: ReviewId
    step_id: StepId
    summary: str
    questions: tuple[str, ...]
    result_summary: Json
    requested_at: datetime
    requested_by: str
    #: Identity of the credential with which the review was requested.
    requested_as: str | None = None
    decision: DecisionKind | None = None
    feedback: str | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    decided_via: Channel | None = None
    decided_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Soft limits of a plan on tokens and cost (in millionths of a dollar); they only warn."""

    tokens: int | None = None
    cost_micros: int | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the budget as JSON, in the form stored in the database and in the audit."""
        return {"tokens": self.tokens, "cost_micros": self.cost_micros}


class Plan(NamedTuple):
    """Plan as loaded for a call, with only the parts that the call needs.

    All steps are loaded, but of the large parts only those that the call may need: the texts of the
    steps that may be assigned, the conditions that are not evaluated yet or belong to the step that
    ends, the last review, and the caller's session if it is part of the plan.
    """

    id: PlanId
    name: str
    status: PlanStatus
    revision: int
    stall_seconds: int | None
    resumed_at: datetime | None
    fail_reason: str | None
    #: Number of the plan's last audit entry.
    seq: int
    steps: tuple[Step, ...]
    texts: Mapping[StepId, StepText] = MappingProxyType({})
    conditions: tuple[Condition, ...] = ()
    review: Review | None = None
    sessions: frozenset[str] = frozenset()
    #: Total usage reported with the plan's results so far, and the soft limit (budget) for this
    #: usage.
    usage: Totals = NO_USAGE
    budget: Budget | None = None
    #: User who created the plan and so is the author of its name, question and first instructions,
    #: and the time of its creation.
    created_by: str | None = None
    created_at: datetime | None = None
    #: Plan of which this plan is a copy, and the audit entry of that plan as of which it was
    #: copied; None for a plan that is not a copy.
    copied_from: PlanId | None = None
    copied_seq: int | None = None

    def statuses(self) -> list[StepStatus]:
        """Return the status of each step, in plan order."""
        return [step.status for step in self.steps]

    def step(self, step_id: StepId) -> Step:
        """Return the step with this id.

        Raises:
            NotFound: the step does not exist, or was removed.
        """
        for step in self.steps:
            if step.id == step_id:
                return step
        raise NotFound("this plan has no such step", stepId=step_id, planId=self.id)

    def steps_with_status(self, *statuses: StepStatus) -> Iterator[Step]:
        """Return the steps in one of these statuses, in plan order."""
        return (step for step in self.steps if step.status in statuses)

    def pending_conditions(self) -> Iterator[Condition]:
        """Return the conditions not evaluated yet, in order of creation."""
        return (condition for condition in self.conditions if condition.outcome is None)

    def has_dependencies(self) -> bool:
        """Return whether a step of the plan depends on another step."""
        return any(step.depends_on for step in self.steps)


MAX_STEPS = 200
MAX_CONDITIONS = 50
#: Default maximum number of holders of a step that stop responding before the step fails.
DEFAULT_MAX_ATTEMPTS = 3
#: Maximum number of times that a `repeat` branch copies its range of steps.
MAX_REPEATS = 100
#: Maximum nesting depth of conditions: a condition may add steps that have conditions, which may
#: add steps again.
MAX_CONDITION_DEPTH = 3
MAX_OUTPUTS = 200
#: Maximum number of sources a step may require; the loader counts a step's sources only up to this
#: number.
MAX_REQUIRED_SOURCES = 50
