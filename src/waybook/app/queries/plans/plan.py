"""Queries for one plan: its current state and its map."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Flag, auto
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from waybook.app.queries.agent_names import load_agent_names
from waybook.app.queries.forecast import plan_forecast
from waybook.app.request.access import load_plan
from waybook.app.request.request_context import RequestContext
from waybook.core.actions import Facts, Kind
from waybook.core.forecasts import Forecast
from waybook.core.ids import id_or_nil
from waybook.core.shown import TO_DO, Shown
from waybook.core.usage import Totals
from waybook.dag.diagram.model import DiagramStep, Lane, exceeds
from waybook.dag.graph import graph_of
from waybook.dag.model import Dag, JobType, ProgressStatus, Recipe, RecipeStep, Stage, Strategy
from waybook.dag.progress.report import Report, StageEvidence, report
from waybook.dag.progress.structure import Evidence, Structure, valid_structure
from waybook.json_values import Json, format_time
from waybook.plan.model import (
    CLOSED_PLAN,
    Output,
    Plan,
    PlanStatus,
    Review,
    Step,
    StepId,
    StepStatus,
    derive_plan_status,
)
from waybook.plan.progress import (
    Progress,
    current_step,
    detect_stalled_steps,
    open_review,
    plan_outcome,
    plan_progress,
)
from waybook.plan.states import state_of_plan, states_of_steps
from waybook.store import calls
from waybook.store.driver.queries import Row, first_value
from waybook.store.plans import details, lists, load
from waybook.store.plans.details import HistoryEntry, Research, StepStatusChange
from waybook.store.plans.lists import ReviewRecord
from waybook.store.plans.load import LoadedPlan, PlanBrief, PlanRequest
from waybook.store.work import WorkerRow, workers_statement

__all__ = ["HistoryEntry", "PlanBrief", "Research", "StepStatusChange"]

STAGE = "plan"

PROGRESS_BY_STATUS = {
    StepStatus.PENDING: ProgressStatus.NOT_STARTED,
    StepStatus.IN_PROGRESS: ProgressStatus.IN_PROGRESS,
    StepStatus.AWAITING_INPUT: ProgressStatus.IN_PROGRESS,
    StepStatus.COMPLETED: ProgressStatus.COMPLETED,
    StepStatus.SKIPPED: ProgressStatus.COMPLETED,
    StepStatus.FAILED: ProgressStatus.FAILED,
}


def plan_structure(plan: Plan) -> Structure:
    """Return the plan as a workflow with one stage, which contains the plan's steps."""
    steps = tuple(
        RecipeStep(
            key=step.id,
            number=step.order,
            name=step.title or f"Step {step.order}",
            job_type=JobType.EXECUTE,
            strategy=Strategy.ALL_TO_ONE,
            output_type=str(step.type),
        )
        for step in plan.steps
    )
    stage = Stage(STAGE, plan.name, Recipe(steps, edges_of(plan)))
    dag = Dag(slug=STAGE, name=plan.name, stages=(stage,))
    graphs = {STAGE: graph_of(stage.recipe)} if steps else {}
    return valid_structure(dag, graphs)


def edges_of(plan: Plan) -> tuple[tuple[str, str], ...]:
    steps = [(step.id, step.depends_on) for step in plan.steps]
    return chain_or_dependencies(steps, sequential=plan.sequential)


def chain_or_dependencies(
    steps: Sequence[tuple[str, Sequence[str]]], *, sequential: bool
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of steps between which a diagram has an edge.

    `steps` has the id of each step and the ids of the steps that it depends on. If no step depends
    on another, the edges lead from each step to the next one.
    """
    dependencies = [
        (before, step_id) for step_id, depends_on in steps for before in dict.fromkeys(depends_on)
    ]
    if not dependencies:
        return tuple(pairwise(step_id for step_id, _ in steps))
    return (*dependencies, *_turns(steps)) if sequential else tuple(dependencies)


def _turns(steps: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    """Yield the edges that follow from the order of a sequential plan.

    A step without dependencies waits for all earlier steps. Edges lead to it from those earlier
    steps that have no edge to a later step yet.
    """
    ends: list[str] = []
    passed: set[str] = set()
    for step_id, depends_on in steps:
        if not depends_on:
            yield from ((before, step_id) for before in ends)
            ends.clear()
        # A step that depends on a later step is done out of order, so draw no edge from it.
        if passed.issuperset(depends_on):
            passed.add(step_id)
            ends = [*(end for end in ends if end not in depends_on), step_id]


def plan_evidence(plan: Plan) -> StageEvidence:
    standings = {str(step.id): PROGRESS_BY_STATUS[step.status] for step in plan.steps}
    steps = {
        str(step.id): Evidence(
            closed=standing is ProgressStatus.COMPLETED,
            done=int(standing is ProgressStatus.COMPLETED),
            active=int(standing is ProgressStatus.IN_PROGRESS),
            failed=int(standing is ProgressStatus.FAILED),
            started_at=format_time(step.in_progress_since),
            completed_at=format_time(step.completed_at),
        )
        for step, standing in zip(plan.steps, standings.values(), strict=True)
    }
    return StageEvidence(standings=standings, steps=steps)


class PlanReport(Report):
    """Progress report of a plan, with the plan's revision, because the steps may change."""

    revision: int
    usage: dict[str, Json]


def plan_report(plan: Plan) -> PlanReport:
    base_report = report(plan_structure(plan), {STAGE: plan_evidence(plan)})
    return {**base_report, "revision": plan.revision, "usage": plan.usage.as_reply()}


def plan_lane(plan: Plan) -> Lane:
    steps = tuple(DiagramStep(step.id, "", str(step.type)) for step in plan.steps)
    return Lane(slug=STAGE, name="", steps=steps, edges=edges_of(plan))


PAGE_SIZE = 100
#: A map with more than `MAX_MAP_BOXES` boxes shows only `STEPS_AROUND` steps.
MAX_MAP_BOXES, STEPS_AROUND, MAP_STRIDE = 150, 100, 25
_HISTORY_ENTRIES, _RESEARCH_ITEMS = 15, 20


class PlanInclude(Flag):
    """Parts of a plan to read besides its question and notes, named like fields of `PlanDetail`."""

    NONE = 0
    RESULTS = auto()
    USAGE = auto()
    REVIEW_RECORD = auto()
    OUTPUTS = auto()
    RESEARCH = auto()
    HISTORY = auto()
    ADDED = auto()
    STATUS_CHANGES = auto()
    NAMES = auto()
    #: Names and status changes of the steps that the page shows.
    WINDOW = auto()
    FINISHED_PLANS = auto()
    WORKERS = auto()

    PAGE = REVIEW_RECORD | OUTPUTS | RESEARCH | HISTORY | ADDED | WINDOW | FINISHED_PLANS | WORKERS
    BOARD = HISTORY | STATUS_CHANGES | NAMES | WORKERS


class StepWindow(NamedTuple):
    number: int
    last: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class PlanDetail:
    plan: Plan
    now: datetime
    stall_threshold: timedelta
    stalled: tuple[tuple[Step, timedelta], ...]
    brief: PlanBrief
    results: Sequence[Row] = ()
    usage: Mapping[str, Totals] = field(default_factory=dict)
    review_record: ReviewRecord | None = None
    outputs: Sequence[Output] = ()
    research: Sequence[Research] = ()
    history: Sequence[HistoryEntry] = ()
    added: int = 0
    status_changes: Sequence[StepStatusChange] = ()
    #: Names of steps without a title. The name is the first line of the instructions.
    names: Mapping[str, str] = field(default_factory=dict)
    finished_plans: Sequence[Row] = ()
    #: Last reports of the workers on this plan.
    workers: Sequence[WorkerRow] = ()
    #: Requested page of steps. By default, the page with the current step.
    page: int | None = None
    #: Status of the listed steps. None lists all steps.
    only: Shown | None = None
    #: Text in the name of the step around which the map is drawn.
    find: str = ""

    @cached_property
    def progress(self) -> Progress:
        return plan_progress(self.plan)

    @property
    def derived_status(self) -> PlanStatus:
        return derive_plan_status(self.plan.statuses())

    @property
    def outcome(self) -> str | None:
        return plan_outcome(self.plan.state, self.plan.statuses())

    @property
    def current_step(self) -> Step | None:
        return current_step(self.plan)

    @property
    def review(self) -> Review | None:
        return open_review(self.plan)

    @property
    def is_closed(self) -> bool:
        return self.plan.status in CLOSED_PLAN

    @property
    def research_total(self) -> int:
        return self.research[0].total if self.research else 0

    @cached_property
    def forecast(self) -> Forecast | None:
        return plan_forecast(self.plan, self.finished_plans)

    @property
    def shown(self) -> Shown:
        return state_of_plan(self.plan)

    @cached_property
    def states(self) -> Mapping[StepId, Shown]:
        """Return the state of each step that people see."""
        return states_of_steps(self.plan, {step.id for step, _ in self.stalled})

    @cached_property
    def state_counts(self) -> Mapping[Shown, int]:
        return Counter(self.states.values())

    @cached_property
    def window(self) -> StepWindow:
        if self.only is None:
            return step_window(self.plan, self.page)
        wanted = TO_DO if self.only is Shown.TODO else {self.only}
        steps = tuple(step for step in self.plan.steps if self.states[step.id] in wanted)
        return step_window(self.plan, self.page, steps)

    @cached_property
    def failed_steps(self) -> tuple[Step, ...]:
        return tuple(self.plan.steps_with_status(StepStatus.FAILED))

    @property
    def facts(self) -> Facts:
        counts = self.state_counts
        failed, silent = (counts.get(state, 0) for state in (Shown.FAILED, Shown.STALLED))
        return Facts(Kind.PLAN, self.shown, Shown.UNKNOWN, len(self.plan.steps), failed, silent)

    def facts_of(self, step: Step) -> Facts:
        return Facts(Kind.STEP, self.states[step.id], within=self.shown)

    @cached_property
    def focus(self) -> Step | None:
        """Return the step in the middle of the map: the one looked for, or the current step."""
        text = self.find.strip().lower()
        names = ((step, f"{step.order} {step.title or ''}".lower()) for step in self.plan.steps)
        found = next((step for step, name in names if text and text in name), None)
        return found or focus_step(self.plan)

    @cached_property
    def lane(self) -> Lane:
        """Return the steps to draw. In a large plan, these are the steps near `focus`.

        They change only with every `MAP_STRIDE` steps, because a page then gets the whole map.
        """
        lane, step = plan_lane(self.plan), self.focus
        if step is None or not exceeds(lane, MAX_MAP_BOXES):
            return lane
        stride = (step.order - 1) // MAP_STRIDE * MAP_STRIDE
        first = max(0, min(stride + MAP_STRIDE, len(lane.steps)) - STEPS_AROUND // 2)
        steps = lane.steps[first : first + STEPS_AROUND]
        near = {step.key for step in steps}
        edges = tuple((a, b) for a, b in lane.edges if a in near and b in near)
        return replace(lane, steps=steps, edges=edges)

    def name_of(self, step: Step) -> str:
        return step_name(step, self.names)

    def with_plan(self, loaded: LoadedPlan) -> "PlanDetail":
        plan, now = loaded.plan, loaded.now
        stalled = detect_stalled_steps(plan, now=now, patience=self.stall_threshold)
        return replace(self, plan=plan, now=now, stalled=stalled)


def step_name(step: Step, names: Mapping[str, str]) -> str:
    return step.title or names.get(step.id) or f"{step.type} step"


async def read_plan_detail(
    ctx: RequestContext,
    plan_id: str,
    include: PlanInclude,
    *,
    page: int | None = None,
    only: Shown | None = None,
    before: PlanDetail | None = None,
    most_results: int = 0,
) -> PlanDetail:
    """Read a plan and the parts listed in `include`.

    `before` is the detail that an earlier call returned for the same plan, so its step names are
    not read again. If the results total more than `most_results` bytes, only their sizes are read.
    """
    plan_id = id_or_nil(plan_id)
    if PlanInclude.STATUS_CHANGES in include:
        await load_agent_names(ctx)
    since = before.plan.seq if before else 0
    possible = {
        PlanInclude.RESULTS: load.SQL["results_within"](plan_id=plan_id, most=most_results),
        PlanInclude.USAGE: calls.SQL["usage_of_steps"](plan_id=plan_id),
        PlanInclude.REVIEW_RECORD: lists.SQL["open_reviews"](
            plan_id=plan_id, most=1, assignee=None
        ),
        PlanInclude.OUTPUTS: details.outputs_statement(plan_id),
        PlanInclude.RESEARCH: details.SQL["research"](plan_id=plan_id, most=_RESEARCH_ITEMS),
        PlanInclude.HISTORY: details.history_statement(plan_id, None, _HISTORY_ENTRIES),
        PlanInclude.ADDED: details.SQL["added"](plan_id=plan_id, most=details.MAX_ENTRIES),
        PlanInclude.FINISHED_PLANS: details.SQL["finished_plans"](plan_id=plan_id),
        PlanInclude.STATUS_CHANGES: details.status_changes_statement(plan_id, None, since=since),
        PlanInclude.WORKERS: workers_statement(plan_id),
    }
    statements = {part: statement for part, statement in possible.items() if part in include}
    loaded, ((brief,), *results) = await load_plan(
        ctx, PlanRequest(plan_id=plan_id), load.SQL["brief"](plan_id=plan_id), *statements.values()
    )
    plan, now, patience = loaded.plan, loaded.now, ctx.services.stall_threshold
    detail = PlanDetail(
        plan=plan,
        now=now,
        stall_threshold=patience,
        stalled=detect_stalled_steps(plan, now=now, patience=patience),
        brief=brief,
        page=page,
        only=only,
        **{
            str(part.name).lower(): _READERS.get(part, list)(rows)
            for part, rows in zip(statements, results, strict=True)
        },
    )
    if before is not None:
        changes = [*before.status_changes, *detail.status_changes]
        detail = replace(detail, status_changes=changes, names=before.names)
    if PlanInclude.WINDOW in include:
        shown = [step.id for step in detail.window.steps]
        named = {
            *shown,
            *(step.key for step in detail.lane.steps),
            *(step.id for step, _ in detail.stalled),
        }
        named |= {step.id for step in detail.failed_steps}
        names, moves = await ctx.read(
            details.names_statement(untitled(plan, named)),
            details.status_changes_statement(plan.id, shown),
        )
        changes = details.read_status_changes(moves)
        return replace(detail, names=details.read_names(names), status_changes=changes)
    unknown = {step.id for step in plan.steps} - detail.names.keys()
    if PlanInclude.NAMES in include and (nameless := untitled(plan, unknown)):
        (names,) = await ctx.read(details.names_statement(nameless, whole=True))
        detail = replace(detail, names={**detail.names, **details.read_names(names)})
    return detail


#: Functions that convert the rows of a part. The rows of all other parts are used unchanged.
_READERS: Mapping[PlanInclude, Callable[[list[Any]], Any]] = {
    PlanInclude.USAGE: calls.read_steps,
    PlanInclude.REVIEW_RECORD: lambda rows: next(iter(lists.read_review_records(rows)), None),
    PlanInclude.ADDED: first_value,
    PlanInclude.STATUS_CHANGES: details.read_status_changes,
}


def untitled(plan: Plan, step_ids: Iterable[str]) -> list[StepId]:
    wanted = frozenset(step_ids)
    return [step.id for step in plan.steps if step.title is None and step.id in wanted]


def focus_step(plan: Plan) -> Step | None:
    """Return the step to show first: the current step, or else the next or the last step."""
    soon = next(plan.steps_with_status(StepStatus.PENDING), None)
    return current_step(plan) or soon or (plan.steps[-1] if plan.steps else None)


def step_window(plan: Plan, page: int | None, only: tuple[Step, ...] | None = None) -> StepWindow:
    steps = plan.steps if only is None else only
    last = max(1, -(-len(steps) // PAGE_SIZE))
    if page is None:
        step = focus_step(plan) if only is None else None
        page = page_of(step.order) if step else 1
    number = min(max(1, page), last)
    return StepWindow(number, last, steps[(number - 1) * PAGE_SIZE : number * PAGE_SIZE])


def page_of(order: int) -> int:
    return (order - 1) // PAGE_SIZE + 1
