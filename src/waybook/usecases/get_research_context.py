"""get_research_context: everything a new conversation needs to go on with a plan."""

import json
from typing import Any

from pydantic import Field

from waybook.plan.model import Plan, Step, StepId
from waybook.plan.review import open_review
from waybook.plan.sessions import is_new_session, resume_session
from waybook.plan.states import CLOSED_PLAN
from waybook.record.moment import Json
from waybook.store import audit, plans
from waybook.store.plans import Wanted
from waybook.usecases.arguments import Id, InSession
from waybook.usecases.call import Body, Call, known
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import Tool
from waybook.usecases.views import (
    artifact_view,
    fair_share,
    fitted,
    following,
    moment,
    progress_view,
    review_view,
    step_view,
    told,
    within_reply,
)

#: The lists in a reply.
LISTS = ("steps", "artifacts", "recentEvents")

RESULTS = 20_000
INSTRUCTIONS = 10_000
MOST_ARTIFACTS = 30
TAIL = 15
MOST_TOLD = 500
MOST_SINCE = 200


class GetResearchContext(InSession):
    plan_id: Id
    since: int | None = Field(None, ge=0, description="only what changed after this seq")
    detail: bool = False


async def get_research_context(call: Call, asked: GetResearchContext) -> Body:
    """The plan with its steps, results, open review, artifacts and last events.

    A session the plan has not met before is noted, once.
    """
    plan_id = known(asked.plan_id)
    wanted = Wanted(plan_id=plan_id, session=call.session)
    entries = (
        audit.SQL["tail"](subject_id=plan_id, most=TAIL)
        if asked.since is None
        else audit.SQL["entries"](subject_id=plan_id, since=asked.since, most=MOST_SINCE)
    )
    loaded, found = await call.look(
        wanted,
        plans.brief_statement(plan_id),
        plans.SQL["instructions"](plan_id=plan_id),
        plans.results_statement(plan_id),
        plans.artifacts_statement(plan_id=plan_id, most=MOST_ARTIFACTS),
        entries,
    )
    if is_new_session(loaded.plan, call.session):
        await _note_session(call, asked.plan_id)
    body = _view(call, loaded.plan, found, asked)
    why = "the whole lists"
    whole = following("get_research_context", why, planId=loaded.plan.id, detail=True)
    return body if asked.detail else within_reply(body, LISTS, whole)


async def _note_session(call: Call, plan_id: str) -> None:
    async with call.locked(plan_id=plan_id) as held:
        await held.write(resume_session(held.plan, held.moment), {})


def _view(call: Call, plan: Plan, found: list[list[Any]], asked: GetResearchContext) -> Body:
    brief, instructions, results, artifacts, entries = found
    question, notes, created_at, created_by, media_type, formatting, skill, _ = brief[0]
    events = audit.read_entries(entries)
    changed = None if asked.since is None else _changed_steps(events)
    steps = [s for s in plan.steps if changed is None or s.id in changed]
    review = open_review(plan)
    return told(
        planId=plan.id,
        name=plan.name,
        status=str(plan.status),
        researchQuestion=question if asked.since is None else None,
        progress=progress_view(plan),
        steps=_steps(steps, dict(instructions), {row[0]: row for row in results}, asked),
        openReview=review_view(review, plan.id, call.house.base_url) if review else None,
        artifacts=[artifact_view(row) for row in artifacts],
        recentEvents=[_event(entry) for entry in events],
        seq=plan.seq,
        revision=plan.revision,
        planFormattingNotes=notes,
        skill=skill,
        outputMediaType=media_type,
        outputFormattingInstructions=formatting,
        reason=plan.fail_reason,
        createdAt=moment(created_at),
        createdBy=created_by,
        next=_next(plan),
    )


def _steps(
    steps: list[Step],
    instructions: dict[str, str],
    results: dict[str, tuple[Any, ...]],
    asked: GetResearchContext,
) -> list[Json]:
    kept = {s.id: results[s.id][1] for s in steps if s.id in results}
    shown = fitted(kept, budget=None if asked.detail else RESULTS)
    lengths = [len(instructions[s.id]) for s in steps]
    share = max(120, fair_share(lengths, INSTRUCTIONS)) if not asked.detail else None
    return [
        told(
            **step_view(s, attempt=s.attempt, failReason=s.fail_reason, heldBy=s.held_by),
            instructions=_shortened(instructions[s.id], share),
            confidence=results[s.id][2] if s.id in results else None,
            lastActivityAt=_last_activity(s),
            **shown.get(StepId(s.id), {}),
        )
        for s in steps
    ]


def _shortened(text: str, share: int | None) -> str:
    return text if share is None or len(text) <= share else text[:share] + " … (get_step_context)"


def _last_activity(step: Step) -> str | None:
    times = [t for t in (step.in_progress_since, step.last_seen_at, step.completed_at) if t]
    return moment(max(times)) if times else None


def _changed_steps(entries: list[audit.Sealed]) -> set[str]:
    changes = (c for entry in entries for c in audit.changes_of(json.loads(entry.details)))
    return {change.id for change in changes if change.entity == "step"}


def _event(entry: audit.Sealed) -> Json:
    details = {k: v for k, v in json.loads(entry.details).items() if k != "changes"}
    return told(
        seq=entry.seq,
        at=moment(entry.at),
        event=entry.event,
        actor=entry.actor,
        channel=entry.channel,
        sessionId=entry.session,
        details={
            k: v if len(str(v)) <= MOST_TOLD else str(v)[:MOST_TOLD] for k, v in details.items()
        },
    )


def _next(plan: Plan) -> Json:
    if plan.status in CLOSED_PLAN:
        return following("list_active_plans", "this plan is over; see the others")
    return following("get_next_step", "go on with the plan", planId=plan.id)


TOOL = Tool(
    name="get_research_context",
    title="Resume a plan",
    description=("Everything a new conversation needs to go on with a plan."),
    arguments=GetResearchContext,
    output_schema=output_schema(steps="array"),
    run=get_research_context,
    reads_only=True,
)
