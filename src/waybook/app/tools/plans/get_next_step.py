"""get_next_step: claim the next step of a plan, or return why no step is available."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from waybook.app.request import reply as replies
from waybook.app.request.arguments import MutatingArguments, PlanIdField, optional
from waybook.app.request.locks.locking import LockedPlan, OptionalPlanProposal, Proposal, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool
from waybook.app.request.wait_queue import Nothing, Subject
from waybook.app.request.waiting import (
    RETRY_AFTER_PERSON_SECONDS,
    RETRY_AFTER_WORK_SECONDS,
    Attempt,
    WaitSeconds,
    answer_or_wait,
)
from waybook.core.events import PLAN
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.draft import Decision
from waybook.plan.model import CLOSED_PLAN, Plan, PlanStatus, Step, StepId, StepStatus
from waybook.plan.next_step import NextStep, StepReady, is_paused, next_step, replaces_silent_holder
from waybook.plan.ordering import steps_blocked_by_touches
from waybook.plan.progress import is_missing, latest, time_until_stall, whole_minutes
from waybook.plan.repeat import round_of
from waybook.store.driver.queries import Ids
from waybook.store.plans import details, load

_MAX_LEFT_BEHIND = 10
#: Maximum size of the earlier results in a reply with a repeated step.
_ROUND_BUDGET: Final = 8_000


class GetNextStep(MutatingArguments):
    plan_id: PlanIdField
    another: bool = optional("claim a second step and keep yours", default=False)
    wait_seconds: WaitSeconds | None = optional("if no step is free, wait up to this many seconds")


@Tool(
    title="Claim the next step",
    description=(
        "Claim the next step of a plan, or get the step you hold. Do it, then call "
        "submit_step_result with its stepId and attempt. status: step_ready; awaiting_review (a "
        "person decides); no_pending_steps (use waitSeconds); plan_complete; plan_failed."
    ),
    reply={"status": "string"},
)
async def get_next_step(ctx: RequestContext, args: GetNextStep) -> ToolReply:
    return await answer_or_wait(ctx, args.wait_seconds, partial(_try_answer, ctx, args))


async def _try_answer(ctx: RequestContext, args: GetNextStep, attempt: Attempt) -> ToolReply:
    locked = LockedPlan(ctx, plan_id=args.plan_id, candidates=True, review=False, cached=True)

    async def decide() -> OptionalPlanProposal:
        plan, context, patience = locked.plan, locked.context, ctx.services.stall_threshold
        decision = next_step(plan, context, another=args.another, patience=patience)
        reply, gap, attempt.nothing = decision.reply, None, None
        if not (isinstance(reply, StepReady) or reply in CLOSED_PLAN):
            for_person = reply is PlanStatus.AWAITING_REVIEW
            retry_after = RETRY_AFTER_PERSON_SECONDS if for_person else RETRY_AFTER_WORK_SECONDS
            if not is_paused(plan):
                gap = time_until_stall(plan, now=locked.now, patience=patience)
            free_in = None if gap is None else gap.total_seconds()
            attempt.nothing = Nothing(Subject(PLAN, plan.id), retry_after, free_in)
        body = await next_step_reply(locked, decision, reply)
        if body is None:
            return None
        body |= attempt.retry_advice()
        return Proposal(decision, body, is_answer=attempt.is_answer)

    return await update(locked, decide)


async def next_step_reply(
    locked: LockedPlan,
    decision: Decision[object],
    reply: NextStep,
    notes: Mapping[StepId, str] = {},
    results: Mapping[str, Json] = {},
) -> Body | None:
    """Return the reply, or None if it needs rows that the cached plan lacks.

    If this call also completes a step, `notes` and `results` belong to that step. They are not in
    the database yet.
    """
    plan = decision.plan
    if locked.is_cached:
        if isinstance(reply, StepReady):
            needs_rows = round_of(plan, reply.step) is not None
        else:
            needs_rows = reply in {PlanStatus.AWAITING_REVIEW, PlanStatus.COMPLETED}
        if needs_rows or replaces_silent_holder(decision.entries):
            return None
    match reply:
        case StepReady():
            return await _ready(locked, plan, reply, results)
        case PlanStatus.COMPLETED:
            return await _complete(locked, plan, notes)
        case PlanStatus.AWAITING_REVIEW:
            (rows,) = await locked.send(load.SQL["load_review"](plan_id=plan.id))
            review, base_url = load.read_review(rows), locked.ctx.services.base_url
            return {
                "status": "awaiting_review",
                "planId": plan.id,
                "review": replies.review_view(review, plan.id, base_url),
                "next": replies.wait_for_review_call(plan.id),
            }
        case PlanStatus.FAILED:
            failed = {**replies.canceled_view(plan), "reason": plan.fail_reason}
            return {"status": "plan_failed", **failed, "next": replies.copy_plan_call(plan)}
        case _:
            return _nothing(plan)


async def _ready(
    locked: LockedPlan, plan: Plan, ready: StepReady, results: Mapping[str, Json]
) -> Body | None:
    step, text = ready.step, plan.texts.get(ready.step.id)
    if text is None:
        if not await locked.load_texts([step.id]):
            return None
        text = locked.plan.texts[step.id]
    following, taken_over = replies.work_call(step), None
    if ready.taken_over is not None:
        before, gap = ready.taken_over
        (rows,) = await locked.send(load.SQL["left_behind"](step_id=step.id, most=_MAX_LEFT_BEHIND))
        left: list[Json] = [
            {"artifactId": row.id, "kind": row.kind, "title": row.title} for row in rows
        ]
        taken_over = non_empty(
            heldBy=before.held_by,
            sessionId=before.held_session,
            attempt=before.attempt,
            silentMinutes=whole_minutes(gap),
            leftBehind=left or None,
        )
        if left:
            why = "Read the earlier attempt's work, then do the step."
            following = next_call("get_step_context", why, stepId=step.id)
    return non_empty(
        status="step_ready",
        planId=plan.id,
        stepId=step.id,
        stepOrder=step.order,
        stepType=str(step.type),
        title=step.title,
        instructions=text.instructions,
        attempt=step.attempt,
        resultSchema=text.result_schema,
        requiredSources=text.required_sources,
        touches=step.touches and step.touched,
        round=await _round(locked, plan, step, results),
        budget=replies.budget_view(plan),
        resumed=ready.resumed or None,
        createdBy=plan.created_by,
        takenOver=taken_over,
        next=following,
    )


async def _round(
    locked: LockedPlan, plan: Plan, step: Step, submitted: Mapping[str, Json]
) -> Body | None:
    """Return why a step is repeated, with the latest results of the repeated steps.

    Return None if the step is not repeated. `submitted` has results that are not stored yet.
    """
    round_ = round_of(plan, step)
    if round_ is None:
        return None
    steps = {str(other.id): other for other in round_.latest}
    (rows,) = await locked.send(load.SQL["results_of"](ids=Ids(tuple(steps)), most=_ROUND_BUDGET))
    small = {row.step_id: row.result for row in rows if row.octets <= _ROUND_BUDGET}
    shown = {row.step_id: replies.cut_result(row.step_id, "", row.octets) for row in rows}
    known = {step_id: value for step_id, value in submitted.items() if step_id in steps}
    shown |= replies.truncate_results({**small, **known}, budget=_ROUND_BUDGET)
    latest: list[Json] = [
        {**replies.step_header(other), **shown[step_id]}
        for step_id, other in steps.items()
        if step_id in shown
    ]
    return {**replies.round_view(round_), "latest": latest}


async def _complete(locked: LockedPlan, plan: Plan, new_notes: Mapping[StepId, str]) -> Body:
    plan_id = plan.id
    (brief,), notes, output_rows = await locked.send(
        load.SQL["brief"](plan_id=plan_id),
        load.SQL["formatting_notes"](plan_id=plan_id),
        details.outputs_statement(plan_id),
    )
    there, media_type = output_rows, brief.output_media_type
    all_notes = {**dict(notes), **new_notes}
    formatting: list[Json] = [
        non_empty(
            stepId=step.id,
            stepOrder=step.order,
            notes=all_notes[step.id],
            **replies.completion_view(step),
        )
        for step in plan.steps
        if step.id in all_notes
    ]
    body: Body = {
        "status": "plan_complete",
        "planId": plan_id,
        **non_empty(
            outputMediaType=media_type,
            outputFormattingInstructions=brief.formatting_instructions,
            planFormattingNotes=brief.formatting_notes,
        ),
        "stepFormattingNotes": formatting,
        "outputs": [replies.output_view(output) for output in latest(there)],
        "outputMissing": is_missing(there, media_type),
        "usage": plan.usage.as_reply(),
        **non_empty(budget=replies.budget_view(plan)),
        "next": replies.next_after_completion(plan_id, media_type, brief.skill_execution_id, there),
    }
    detail_call = next_call("get_research_context", "Read the plan's context.", planId=plan_id)
    return replies.fit_reply(body, ("outputs", "stepFormattingNotes"), detail_call)


def _nothing(plan: Plan) -> Body:
    statuses = (StepStatus.IN_PROGRESS, StepStatus.FAILED, StepStatus.PENDING)
    running, ended, waiting = ([*plan.steps_with_status(status)] for status in statuses)
    in_progress: list[Json] = [
        non_empty(
            stepId=step.id,
            heldBy=step.held_by,
            lastSeenAt=format_time(step.last_seen_at or step.in_progress_since),
        )
        for step in running
    ]
    failed: list[Json] = [{"stepId": step.id} for step in ended]
    blocked: list[Json] = [
        {"stepId": step.id, "stepOrder": step.order, "waitsFor": replies.place_view(other)}
        for step, other in steps_blocked_by_touches(plan)
    ]
    call = replies.wait_call(plan.id, "Wait until a step is free or the plan ends.")
    if not (in_progress or failed or waiting):
        why = "The plan has no steps. Add steps, or cancel it."
        call = next_call("modify_plan", why, planId=plan.id)
    body: Body = {
        "status": "no_pending_steps",
        "planId": plan.id,
        "inProgress": len(running),
        "failed": len(failed),
        **non_empty(
            waiting=len(waiting) or None, failedSteps=failed or None, blocked=blocked or None
        ),
        "steps": in_progress,
        "next": call,
    }
    detail_call = next_call("get_plan_status", "Get the full list.", planId=plan.id, detail=True)
    lists = ("steps", "blocked") if blocked else ("steps",)
    return replies.fit_reply(body, lists, detail_call)
