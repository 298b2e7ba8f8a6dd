"""A plan for somebody who watches: its steps, and when each was in which status. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from waybook.plan.model import Plan, Review, Step, StepId
from waybook.plan.review import open_review
from waybook.plan.stalls import stalled_steps
from waybook.plan.states import CLOSED_PLAN, StepStatus
from waybook.store import audit
from waybook.store.plans import PlanRequest
from waybook.usecases.call import RequestContext, id_or_nil


@dataclass(frozen=True, slots=True)
class StatusChange:
    """A step went into a status."""

    step_id: str
    at: datetime
    status: StepStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvent:
    """The last thing that happened, as the audit has it."""

    seq: int
    at: datetime
    event: str
    actor: str
    session: str | None
    action: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHistory:
    """What happened so far; the next look adds to it."""

    moves: tuple[StatusChange, ...] = ()
    happenings: tuple[LastEvent, ...] = ()
    #: What each step without a title is called: the first line of its instructions.
    names: Mapping[StepId, str] = field(default_factory=dict)

    @property
    def seq(self) -> int:
        """The number of the last audit entry that is in here."""
        return self.happenings[-1].seq if self.happenings else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOverview:
    """All that a picture of a plan shows."""

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
        """What to call a step: its title, else the first line of its instructions."""
        return step.title or self.history.names.get(step.id, f"{step.type} step")


async def read_plan_overview(
    ctx: RequestContext, plan_id: str, before: PlanOverview | None = None
) -> PlanOverview:
    """Look at the plan; of its history only what came after the picture before.

    A stall is told, not noted: somebody who watches changes nothing.
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
    ctx: RequestContext, plan: Plan, told: Mapping[StepId, str]
) -> dict[StepId, str]:
    """The names of steps without a title, where we do not know them yet."""
    unknown = tuple(s.id for s in plan.steps if s.title is None and s.id not in told)
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
