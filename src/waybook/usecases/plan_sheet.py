"""A plan for the page that shows it whole: steps by the page, the map around where it stands.

Two looks, whatever the size of the plan: the plan with what is kept beside it, then what is shown
of the steps of one page. Reads only; a stall is told, not noted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from waybook.dag.drawing.neighbourhood import exceeds, steps_around
from waybook.dag.drawing.sketch import Lane
from waybook.plan.model import Plan, Step, StepId
from waybook.plan.output import Output
from waybook.plan.progress import current_step
from waybook.plan.stalls import stalled_steps
from waybook.plan.states import StepStatus
from waybook.store import outputs, plans, sheets
from waybook.store.plans import PlanRequest
from waybook.store.sheets import HistoryEntry, Research, StepStatusChange
from waybook.usecases.call import RequestContext, id_or_nil
from waybook.usecases.drawings import plan_lane
from waybook.usecases.list_reviews import OpenReview, read_open_reviews

#: How many steps stand on a page.
PAGE_SIZE = 100
#: A map of more boxes than this is not drawn whole; then so many steps of it are.
MAX_MAP_BOXES, STEPS_AROUND = 200, 100
HAPPENINGS, RESEARCH = 15, 20


@dataclass(frozen=True, slots=True)
class StepWindow:
    """The steps of one page."""

    number: int
    last: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBrief:
    """What stays the same through a plan's life."""

    question: str
    formatting_notes: str | None
    created_at: datetime
    created_by: str
    skill: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDetail:
    """All that the page of a plan shows."""

    plan: Plan
    now: datetime
    stall_threshold: timedelta
    stalled: tuple[tuple[Step, timedelta], ...]
    brief: PlanBrief
    #: How many steps were added after the work had begun.
    added: int
    #: What waits for a person.
    review: OpenReview | None
    outputs: list[Output]
    research: list[Research]
    research_total: int
    history: list[HistoryEntry]
    window: StepWindow
    #: The steps on the map, without names: all, or those around the step to look at.
    lane: Lane
    names: Mapping[str, str]
    #: Of the steps of the page, oldest first.
    status_changes: list[StepStatusChange]

    def name_of(self, step: Step) -> str:
        """What to call a step: its title, else the first line of its instructions."""
        return step.title or self.names.get(step.id) or f"{step.type} step"


async def read_plan_detail(
    ctx: RequestContext, plan_id: str, page: int | None = None
) -> PlanDetail:
    """Look at the plan; without a page, at the one with the step to look at.

    Raises:
        NotFound: the plan is not there, or not this org's.
    """
    plan_id = id_or_nil(plan_id)
    beside = sheets.plan_statements(plan_id, happenings=HAPPENINGS, research=RESEARCH)
    loaded, found = await ctx.load_plan(
        PlanRequest(plan_id=plan_id),
        plans.brief_statement(plan_id),
        outputs.outputs_statement(plan_id),
        plans.open_reviews_statement(plan_id=plan_id, most=1),
        *beside,
    )
    brief, kept, reviews, happenings, research, added = found
    plan = loaded.plan
    window, lane = step_window(plan, page), visible_lane(plan)
    shown = [step.id for step in window.steps]
    named = {*shown, *(step.key for step in lane.steps)}
    untitled = [step.id for step in plan.steps if step.title is None and step.id in named]
    names, moves = await ctx.read(
        sheets.names_statement(untitled), sheets.status_changes_statement(plan_id, shown)
    )
    return PlanDetail(
        plan=plan,
        now=loaded.now,
        stall_threshold=ctx.services.stall_threshold,
        stalled=stalled_steps(plan, now=loaded.now, patience=ctx.services.stall_threshold),
        brief=read_brief(brief[0]),
        added=added[0][0],
        review=next(iter(read_open_reviews(reviews)), None),
        outputs=outputs.read_outputs(kept),
        research=sheets.read_research(research),
        research_total=research[0][-1] if research else 0,
        history=sheets.read_history(happenings),
        window=window,
        lane=lane,
        names=sheets.read_names(names),
        status_changes=sheets.read_status_changes(moves),
    )


def read_brief(row: tuple[object, ...]) -> PlanBrief:
    """The brief of a plan from its row."""
    question, notes, created_at, created_by, _, _, skill, _ = row
    return PlanBrief(
        question=str(question),
        formatting_notes=None if notes is None else str(notes),
        created_at=created_at,  # type: ignore[arg-type]  # a column that is a time
        created_by=str(created_by),
        skill=None if skill is None else str(skill),
    )


def focus_step(plan: Plan) -> Step | None:
    """Where the plan stands: the current step, else the next one, else the last."""
    soon = next(plan.steps_with_status(StepStatus.PENDING), None)
    return current_step(plan) or soon or (plan.steps[-1] if plan.steps else None)


def step_window(plan: Plan, page: int | None) -> StepWindow:
    """The page that is asked for, as far as there is one; else that of the step to look at."""
    last = max(1, -(-len(plan.steps) // PAGE_SIZE))
    step = focus_step(plan)
    if page is None:
        page = (step.order - 1) // PAGE_SIZE + 1 if step else 1
    number = min(max(1, page), last)
    return StepWindow(number, last, plan.steps[(number - 1) * PAGE_SIZE : number * PAGE_SIZE])


def visible_lane(plan: Plan) -> Lane:
    """The whole map, or of a large one what is around the step to look at."""
    lane, step = plan_lane(plan), focus_step(plan)
    return (
        steps_around(lane, step.id, STEPS_AROUND) if step and exceeds(lane, MAX_MAP_BOXES) else lane
    )


def visible_names(sheet: PlanDetail) -> dict[StepId, str]:
    """What the steps on the map are called."""
    drawn = {step.key for step in sheet.lane.steps}
    return {step.id: sheet.name_of(step) for step in sheet.plan.steps if step.id in drawn}
