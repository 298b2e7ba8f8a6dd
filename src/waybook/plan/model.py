"""The values a plan consists of: steps, conditions, reviews, and who acts at which moment.

How large a plan may be.
"""

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
    """What kind of work a step is. Informational: no rule looks at it."""

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
    FAIL = "fail"


class BranchOutcome(StrEnum):
    """What became of a condition when its step completed."""

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
    """A step as somebody asks for it, before it has an id and a place."""

    type: StepType
    instructions: str
    title: str | None = None
    stall_seconds: int | None = None
    result_schema: Json = None
    #: The orders of the steps it waits for.
    depends_on: tuple[int, ...] = ()
    #: How many sources its result must rest on.
    required_sources: int | None = None


class Step(NamedTuple):
    """The state of one step; its texts are in `Plan.texts`, its result is nobody's input."""

    id: StepId
    order: int
    type: StepType
    title: str | None
    status: StepStatus
    attempt: int
    stall_seconds: int | None
    #: Set on every entry to in_progress, so that time spent waiting for a person never counts.
    in_progress_since: datetime | None
    #: The last sign of life. Telemetry: not audited, not replayed.
    last_seen_at: datetime | None
    completed_at: datetime | None
    held_by: str | None
    held_session: str | None
    fail_reason: str | None
    #: The steps it waits for.
    depends_on: tuple[StepId, ...] = ()

    @property
    def holder(self) -> Holder | None:
        """Holder of the current attempt; None unless the step is in progress and was taken."""
        if self.held_by is None or self.status is not StepStatus.IN_PROGRESS:
            return None
        return Holder(self.held_by, self.held_session)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """A source stored for a step, by whatever it is found again."""

    id: str
    title: str
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepText:
    instructions: str
    result_schema: Json = None
    required_sources: int | None = None
    #: What is stored for it, as far as that counts; loaded only where sources are required.
    sources: tuple[StoredSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A branching condition, looked at when its step completes."""

    id: ConditionId
    step_id: StepId
    position: int
    expression: str
    action: BranchAction
    target_step_id: StepId | None = None
    steps: tuple[NewStep, ...] = ()
    reason: str | None = None
    outcome: BranchOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A pause for a person, and the answer once there is one."""

    id: ReviewId
    step_id: StepId
    summary: str
    questions: tuple[str, ...]
    result_summary: Json
    requested_at: datetime
    requested_by: str
    #: The credential it was requested with.
    requested_as: str | None = None
    decision: DecisionKind | None = None
    feedback: str | None = None
    decided_at: datetime | None = None
    decided_by: str | None = None
    decided_via: Channel | None = None
    decided_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a plan may take before somebody is warned; money in millionths of a dollar."""

    tokens: int | None = None
    cost_micros: int | None = None

    def as_json(self) -> dict[str, Json]:
        """The budget as it is stored and audited."""
        return {"tokens": self.tokens, "cost_micros": self.cost_micros}


class Plan(NamedTuple):
    """One plan as its rules see it.

    A loader brings all steps, but of the bulky rest only what the call at hand may need: the texts
    of candidate steps, the conditions of the step that ends or that are still waiting, the last
    review, and the session that asks if the plan knows it.
    """

    id: PlanId
    name: str
    status: PlanStatus
    revision: int
    stall_seconds: int | None
    resumed_at: datetime | None
    fail_reason: str | None
    #: The number of the last audit entry.
    seq: int
    steps: tuple[Step, ...]
    texts: Mapping[StepId, StepText] = MappingProxyType({})
    conditions: tuple[Condition, ...] = ()
    review: Review | None = None
    sessions: frozenset[str] = frozenset()
    #: What its results took so far, and what they may take.
    usage: Totals = NO_USAGE
    budget: Budget | None = None
    #: Whose words its name, its question and its first instructions are, and since when.
    created_by: str | None = None
    created_at: datetime | None = None

    def statuses(self) -> list[StepStatus]:
        """The steps' statuses, in plan order."""
        return [step.status for step in self.steps]

    def step(self, step_id: StepId) -> Step:
        """The step with this id.

        Raises:
            NotFound: it is not here, or not any more.
        """
        for step in self.steps:
            if step.id == step_id:
                return step
        raise NotFound("this plan has no such step", stepId=step_id, planId=self.id)

    def steps_with_status(self, *statuses: StepStatus) -> Iterator[Step]:
        """The steps in one of these statuses, in plan order."""
        return (step for step in self.steps if step.status in statuses)

    def pending_conditions(self) -> Iterator[Condition]:
        """The conditions nobody has looked at yet, in order of creation."""
        return (condition for condition in self.conditions if condition.outcome is None)


MAX_STEPS = 200
MAX_CONDITIONS = 50
MAX_OUTPUTS = 200
#: How many sources a step may require; the loader of steps counts no further.
MAX_REQUIRED_SOURCES = 50
