"""A plan as it was after one of its audit entries, for the time slider on its page."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from waybook.app.queries.audit import SubjectAsOf, entry_details, event_label, subject_as_of
from waybook.app.queries.plans.plan import (
    MAX_MAP_BOXES,
    STEPS_AROUND,
    PlanInclude,
    read_plan_detail,
)
from waybook.app.queries.plans.plan_map import STAGE, chain_or_dependencies
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Row
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane, exceeds, steps_around
from waybook.dag.diagram.status_marks import Annotation, Annotations
from waybook.dag.diagram.svg import Drawing
from waybook.errors import InvalidInput
from waybook.plan.model import DONE_STEP, StepStatus, plan_state

#: Maximum number of audit entries that a page replays.
MAX_REPLAYED_ENTRIES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PastStep:
    id: str
    order: int
    name: str
    type: str
    status: StepStatus
    attempt: int
    holder: str
    depends_on: tuple[str, ...]
    exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPlan:
    name: str
    status: str
    sequential: bool
    steps: tuple[PastStep, ...]
    seq: int
    last_seq: int
    at: datetime
    actor: str
    event: str

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(str(step.status) for step in self.steps))

    @property
    def done(self) -> int:
        return sum(step.status in DONE_STEP for step in self.steps)


async def read_plan_history(
    ctx: RequestContext, plan_id: str, *, seq: int | None = None, at: datetime | None = None
) -> PastPlan:
    """Rebuild a plan from its audit as of an entry or a time, by default the last entry.

    Raises:
        NotFound: the plan does not exist, belongs to another org, or did not exist at that time.
        InvalidInput: the audit is too long to replay for a page.
    """
    plan = (await read_plan_detail(ctx, plan_id, PlanInclude.NONE)).plan
    last = plan.seq
    if last > MAX_REPLAYED_ENTRIES:
        raise InvalidInput(
            f"this plan has {last:,} audit entries, and a page replays at most "
            f"{MAX_REPLAYED_ENTRIES:,}; use `waybook audit as-of` instead"
        )
    if at is None:
        seq = last if seq is None else min(max(1, seq), last)
    then = await subject_as_of(ctx, plan.id, at=at, seq=seq if at is None else None)
    return past_plan(then, last, frozenset(step.id for step in plan.steps))


def past_plan(then: SubjectAsOf, last_seq: int, existing: frozenset[str]) -> PastPlan:
    """Build a past plan from replayed rows. `existing` has the ids of steps that still exist."""
    plan = next(iter(then.rows["plan"].values()))
    rows: Mapping[str, Row] = then.rows.get("step", {})
    steps = [_past_step(step_id, row, exists=step_id in existing) for step_id, row in rows.items()]
    action = entry_details(then.last).get("action")
    return PastPlan(
        name=str(plan["name"]),
        status=str(plan_state(plan["status"], canceled=plan.get("canceled"))),
        sequential=bool(plan.get("sequential")),
        steps=tuple(sorted(steps, key=lambda step: step.order)),
        seq=then.last.seq,
        last_seq=last_seq,
        at=then.last.at,
        actor=then.last.session or then.last.actor,
        event=event_label(then.last.event, action if isinstance(action, str) else None),
    )


def _past_step(step_id: str, row: Row, *, exists: bool) -> PastStep:
    before = row.get("depends_on")
    return PastStep(
        id=step_id,
        order=int(str(row["order"])),
        name=str(row["title"] or str(row["instructions"]).strip().split("\n", 1)[0])[:200],
        type=str(row["type"]),
        status=StepStatus(str(row["status"])),
        attempt=int(str(row["attempt"])),
        holder=str(row["held_session"] or row["held_by"] or ""),
        depends_on=tuple(map(str, before)) if isinstance(before, list) else (),
        exists=exists,
    )


def past_drawing(plan: PastPlan) -> Drawing:
    """Return the diagram of a past plan. Of a large plan, only a part is drawn."""
    boxes = tuple(DiagramStep(step.id, step.name, step.type) for step in plan.steps)
    steps = [(step.id, step.depends_on) for step in plan.steps]
    edges = chain_or_dependencies(steps, sequential=plan.sequential)
    lane = Lane(slug=STAGE, name="", steps=boxes, edges=edges)
    if plan.steps and exceeds(lane, MAX_MAP_BOXES):
        position = next((s for s in plan.steps if s.status not in DONE_STEP), plan.steps[-1])
        lane = steps_around(lane, position.id, STEPS_AROUND)
    marks = {
        (STAGE, step.id): Annotation(str(step.status), f"step {step.order}") for step in plan.steps
    }
    return Drawing(Diagram(name=plan.name, lanes=(lane,)), Annotations(steps=marks))
