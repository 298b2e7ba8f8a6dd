"""Read models of a plan: the detail page, the overview, and the plan as of a time or an entry.

The detail page takes two reads, regardless of the size of the plan: the plan with its related rows,
then names and status changes of the steps on one page. All queries are read-only: a stall is
reported, not recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from waybook.app.queries.audit import changes_in, read_all_entries
from waybook.app.queries.inbox import OpenReview, read_open_reviews
from waybook.app.queries.plan_map import plan_lane
from waybook.app.request.lookups import id_or_nil
from waybook.app.request.request_context import RequestContext
from waybook.core.replay import Rows, replay
from waybook.dag.diagram.layout import exceeds, steps_around
from waybook.dag.diagram.model import Lane
from waybook.errors import NotFound
from waybook.plan.model import Plan, Review, Step, StepId
from waybook.plan.output import Output
from waybook.plan.progress import current_step
from waybook.plan.review import open_review
from waybook.plan.stalls import stalled_steps
from waybook.plan.states import CLOSED_PLAN, StepStatus
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.plans import details, load
from waybook.store.plans.details import HistoryEntry, Research, StepStatusChange
from waybook.store.plans.load import PlanRequest

#: Steps per page.
PAGE_SIZE = 100
#: A map with more boxes than this is not drawn whole; the second number of its steps is.
MAX_MAP_BOXES, STEPS_AROUND = 200, 100
HAPPENINGS, RESEARCH = 15, 20


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Steps of one page."""

    number: int
    last: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBrief:
    """Fields of a plan that never change."""

    question: str
    formatting_notes: str | None
    created_at: datetime
    created_by: str
    skill: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDetail:
    """Contents of the page of a plan."""

    plan: Plan
    now: datetime
    stall_threshold: timedelta
    stalled: tuple[tuple[Step, timedelta], ...]
    brief: PlanBrief
    #: Number of steps added after work had begun.
    added: int
    #: The review that waits for a person.
    review: OpenReview | None
    outputs: list[Output]
    research: list[Research]
    research_total: int
    history: list[HistoryEntry]
    window: StepWindow
    #: Steps on the map, without names: all, or those around the focus step.
    lane: Lane
    names: Mapping[str, str]
    #: Status changes of the steps on the page, oldest first.
    status_changes: list[StepStatusChange]

    def name_of(self, step: Step) -> str:
        """Return the name of a step: its title, else the first line of its instructions."""
        return step.title or self.names.get(step.id) or f"{step.type} step"


async def read_plan_detail(
    ctx: RequestContext, plan_id: str, page: int | None = None
) -> PlanDetail:
    """Read a plan; without a page number, the page with the focus step.

    Raises:
        NotFound: the plan does not exist, or belongs to another org.
    """
    plan_id = id_or_nil(plan_id)
    extra_statements = details.plan_statements(plan_id, happenings=HAPPENINGS, research=RESEARCH)
    loaded, results = await ctx.load_plan(
        PlanRequest(plan_id=plan_id),
        load.brief_statement(plan_id),
        details.outputs_statement(plan_id),
        load.open_reviews_statement(plan_id=plan_id, most=1),
        *extra_statements,
    )
    brief, outputs, reviews, happenings, research, added = results
    plan = loaded.plan
    window, lane = step_window(plan, page), visible_lane(plan)
    shown = [step.id for step in window.steps]
    named = {*shown, *(step.key for step in lane.steps)}
    untitled = [step.id for step in plan.steps if step.title is None and step.id in named]
    names, moves = await ctx.read(
        details.names_statement(untitled), details.status_changes_statement(plan_id, shown)
    )
    return PlanDetail(
        plan=plan,
        now=loaded.now,
        stall_threshold=ctx.services.stall_threshold,
        stalled=stalled_steps(plan, now=loaded.now, patience=ctx.services.stall_threshold),
        brief=read_brief(brief[0]),
        added=added[0][0],
        review=next(iter(read_open_reviews(reviews)), None),
        outputs=details.read_outputs(outputs),
        research=details.read_research(research),
        research_total=research[0][-1] if research else 0,
        history=details.read_history(happenings),
        window=window,
        lane=lane,
        names=details.read_names(names),
        status_changes=details.read_status_changes(moves),
    )


def read_brief(row: tuple[object, ...]) -> PlanBrief:
    """Return the brief of a plan from its row."""
    question, notes, created_at, created_by, _, _, skill, _ = row
    return PlanBrief(
        question=str(question),
        formatting_notes=None if notes is None else str(notes),
        created_at=created_at,  # type: ignore[arg-type]  # a column that is a time
        created_by=str(created_by),
        skill=None if skill is None else str(skill),
    )


def focus_step(plan: Plan) -> Step | None:
    """Return the focus step: the current step, else the next one, else the last."""
    soon = next(plan.steps_with_status(StepStatus.PENDING), None)
    return current_step(plan) or soon or (plan.steps[-1] if plan.steps else None)


def step_window(plan: Plan, page: int | None) -> StepWindow:
    """Return the requested page, clamped to the existing ones; else that of the focus step."""
    last = max(1, -(-len(plan.steps) // PAGE_SIZE))
    step = focus_step(plan)
    if page is None:
        page = (step.order - 1) // PAGE_SIZE + 1 if step else 1
    number = min(max(1, page), last)
    return StepWindow(number, last, plan.steps[(number - 1) * PAGE_SIZE : number * PAGE_SIZE])


def visible_lane(plan: Plan) -> Lane:
    """Return the whole map, or the part of a large one around the focus step."""
    lane, step = plan_lane(plan), focus_step(plan)
    return (
        steps_around(lane, step.id, STEPS_AROUND) if step and exceeds(lane, MAX_MAP_BOXES) else lane
    )


def visible_names(sheet: PlanDetail) -> dict[StepId, str]:
    """Return the names of the steps on the map."""
    drawn = {step.key for step in sheet.lane.steps}
    return {step.id: sheet.name_of(step) for step in sheet.plan.steps if step.id in drawn}


@dataclass(frozen=True, slots=True)
class StatusChange:
    """Change of a step's status."""

    step_id: str
    at: datetime
    status: StepStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvent:
    """Last audit entry."""

    seq: int
    at: datetime
    event: str
    actor: str
    session: str | None
    action: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHistory:
    """History so far; the next read adds to it."""

    moves: tuple[StatusChange, ...] = ()
    happenings: tuple[LastEvent, ...] = ()
    #: Names of steps without a title: the first line of their instructions.
    names: Mapping[StepId, str] = field(default_factory=dict)

    @property
    def seq(self) -> int:
        """Return the number of the last audit entry included."""
        return self.happenings[-1].seq if self.happenings else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOverview:
    """Contents of the overview of a plan."""

    plan: Plan
    now: datetime
    stalled: tuple[tuple[Step, timedelta], ...]
    history: PlanHistory

    @property
    def review(self) -> Review | None:
        return open_review(self.plan)

    @property
    def is_closed(self) -> bool:
        return self.plan.status in CLOSED_PLAN

    def name_of(self, step: Step) -> str:
        """Return the name of a step: its title, else the first line of its instructions."""
        return step.title or self.history.names.get(step.id, f"{step.type} step")


async def read_plan_overview(
    ctx: RequestContext, plan_id: str, before: PlanOverview | None = None
) -> PlanOverview:
    """Read a plan, and of its history only what is newer than the previous overview.

    A stall is reported, not recorded: watching a plan changes nothing.
    """
    wanted = PlanRequest(plan_id=id_or_nil(plan_id))
    history = before.history if before else PlanHistory()
    statement = audit.SQL["status_changes"](subject_id=wanted.plan_id, since=history.seq)
    loaded, (rows,) = await ctx.load_plan(wanted, statement)
    return PlanOverview(
        plan=loaded.plan,
        now=loaded.now,
        stalled=stalled_steps(loaded.plan, now=loaded.now, patience=ctx.services.stall_threshold),
        history=PlanHistory(
            moves=(*history.moves, *(move for row in rows for move in _moves(row))),
            happenings=(*history.happenings, *(_happening(row) for row in rows)),
            names={**history.names, **await read_step_names(ctx, loaded.plan, history.names)},
        ),
    )


async def read_step_names(
    ctx: RequestContext, plan: Plan, cached_names: Mapping[StepId, str]
) -> dict[StepId, str]:
    """Return the names of steps without a title that are not known yet."""
    unknown = tuple(s.id for s in plan.steps if s.title is None and s.id not in cached_names)
    if not unknown:
        return {}
    loaded, _ = await ctx.load_plan(PlanRequest(plan_id=plan.id, texts=unknown))
    texts = loaded.plan.texts
    return {i: texts[i].instructions.strip().split("\n", 1)[0] for i in unknown if i in texts}


def _moves(row: tuple[Any, ...]) -> list[StatusChange]:
    return [StatusChange(step_id, row[1], StepStatus(status)) for step_id, status in row[6] or ()]


def _happening(row: tuple[Any, ...]) -> LastEvent:
    seq, at, event, actor, session, action, _ = row
    return LastEvent(seq=seq, at=at, event=event, actor=actor, session=session, action=action)


@dataclass(frozen=True, slots=True)
class PlanAsOf:
    """Rows of a plan after an entry, and that entry."""

    rows: Rows
    last: SealedEntry


async def plan_as_of(
    ctx: RequestContext, plan_id: str, *, at: datetime | None = None, seq: int | None = None
) -> PlanAsOf:
    """Replay the plan up to a time, or up to an entry.

    Raises:
        NotFound: the plan did not exist yet.
    """
    until = seq if seq is not None else await _seq_at(ctx, plan_id, at)
    entries = await read_all_entries(ctx, id_or_nil(plan_id), until=until)
    if not entries:
        raise NotFound("there was no such plan yet at that time")
    return PlanAsOf(replay(changes_in(entries)), entries[-1])


async def _seq_at(ctx: RequestContext, plan_id: str, at: datetime | None) -> int:
    (rows,) = await ctx.read(audit.SQL["until"](subject_id=id_or_nil(plan_id), at=at))
    seq: int = rows[0][0]
    return seq
