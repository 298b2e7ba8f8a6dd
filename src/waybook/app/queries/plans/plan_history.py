"""Rebuilds a plan as it was after an audit entry, for the time slider on the plan page."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from waybook.app.queries.audit import (
    SubjectAsOf,
    entry_label,
    step_title,
    steps_in_order,
    subject_as_of,
)
from waybook.app.queries.plans.plan import (
    MAX_MAP_BOXES,
    STAGE,
    STEPS_AROUND,
    PlanInclude,
    chain_or_dependencies,
    read_plan_detail,
)
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Row
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane, exceeds, steps_around
from waybook.dag.diagram.status_marks import Annotation, Annotations
from waybook.dag.diagram.svg import Drawing
from waybook.dag.snapshots.rows import as_list
from waybook.errors import InvalidInput
from waybook.plan.model import DONE_STEP, PlanState, plan_state
from waybook.store.audit import SealedEntry

#: Maximum number of audit entries that a page replays.
MAX_REPLAYED_ENTRIES = 20_000
MAX_NAME_LENGTH = 200


class PastPlan(NamedTuple):
    row: Row
    #: Rows of the steps by id, in the order of the plan.
    steps: Mapping[str, Row]
    #: Ids of the steps that are still in the plan today.
    existing: frozenset[str]
    last: SealedEntry
    last_seq: int

    @property
    def status(self) -> PlanState:
        return plan_state(self.row["status"], canceled=self.row.get("canceled"))

    @property
    def event(self) -> str:
        return entry_label(self.last)

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(str(step["status"]) for step in self.steps.values()))

    @property
    def done(self) -> int:
        return sum(step["status"] in DONE_STEP for step in self.steps.values())


async def read_plan_history(
    ctx: RequestContext, plan_id: str, *, seq: int | None = None, at: datetime | None = None
) -> PastPlan:
    """Rebuild a plan from its audit, as of the entry `seq`, the time `at`, or the last entry."""
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
    return PastPlan(
        row=next(iter(then.rows["plan"].values())),
        steps=dict(steps_in_order(then.rows)),
        existing=existing,
        last=then.last,
        last_seq=last_seq,
    )


def past_drawing(plan: PastPlan) -> Drawing:
    """Return the diagram of a past plan. Of a large plan, only a part is drawn."""
    rows = plan.steps
    boxes = tuple(
        DiagramStep(step_id, step_title(row)[:MAX_NAME_LENGTH], str(row["type"]))
        for step_id, row in rows.items()
    )
    before = [
        (step_id, [*map(str, as_list(row.get("depends_on")))]) for step_id, row in rows.items()
    ]
    edges = chain_or_dependencies(before, sequential=bool(plan.row.get("sequential")))
    lane = Lane(slug=STAGE, name="", steps=boxes, edges=edges)
    if rows and exceeds(lane, MAX_MAP_BOXES):
        is_open = (step_id for step_id, row in rows.items() if row["status"] not in DONE_STEP)
        lane = steps_around(lane, next(is_open, [*rows][-1]), STEPS_AROUND)
    marks = {
        (STAGE, step_id): Annotation(str(row["status"]), f"step {row['order']}")
        for step_id, row in rows.items()
    }
    return Drawing(Diagram(name=str(plan.row["name"]), lanes=(lane,)), Annotations(steps=marks))
