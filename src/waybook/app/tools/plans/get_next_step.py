"""get_next_step: claim the next step of a plan, or return why none is available."""

from typing import assert_never

from pydantic import Field

from waybook.app.request.aggregates import LockedPlan, PlanProposal
from waybook.app.request.arguments import MutatingArguments, PlanIdField
from waybook.app.request.locking import Proposal, update
from waybook.app.request.reply import (
    author_view,
    budget_view,
    completion_view,
    fit_reply,
    holder_view,
    next_after_completion,
    next_call,
    non_empty,
    output_view,
    review_view,
)
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool, output_schema
from waybook.json_values import Body, Json
from waybook.plan.model import Plan, Step, StepText
from waybook.plan.next_step import (
    AwaitingReview,
    NextStep,
    NothingPending,
    PlanComplete,
    PlanFailed,
    StepReady,
    next_step,
)
from waybook.plan.output import is_missing, latest
from waybook.store.plans import details, load


class GetNextStep(MutatingArguments):
    plan_id: PlanIdField
    another: bool = Field(default=False, description="besides the step you hold")


async def get_next_step(ctx: RequestContext, args: GetNextStep) -> ToolReply:
    """Start the plan's next pending step and return it, or return why none is available."""
    locked = LockedPlan(ctx, plan_id=args.plan_id, candidates=True, review=False, cached=True)

    async def decide() -> PlanProposal | None:
        decision = next_step(locked.plan, locked.decision_context, another=args.another)
        body = await _reply(locked, decision.reply)
        return None if body is None else Proposal(decision, body)

    return await update(locked, decide)


async def _reply(locked: LockedPlan, reply: NextStep) -> Body | None:
    """Return the reply, or None if it needs rows that the cached plan lacks."""
    plan_id = locked.plan.id
    match reply:
        case StepReady(step, text, resumed):
            return None if text is None else _ready(step, text, locked.plan, resumed=resumed)
        case PlanComplete() | AwaitingReview() if locked.is_cached:
            return None
        case PlanComplete():
            return await _complete(locked)
        case PlanFailed(reason):
            why = "read how far it came"
            following_call = next_call("get_research_context", why, planId=plan_id)
            return {"status": "plan_failed", "reason": reason, "next": following_call}
        case AwaitingReview():
            return await _awaiting(locked)
        case NothingPending():
            return _nothing(reply, plan_id)
        case _:
            assert_never(reply)


def _ready(step: Step, text: StepText, plan: Plan, *, resumed: bool) -> Body:
    args: Body = {"stepId": step.id, "attempt": step.attempt}
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
        budget=budget_view(plan),
        resumed=resumed or None,
        **author_view(plan),
        next=next_call("submit_step_result", "when the step's work is done", **args),
    )


async def _complete(locked: LockedPlan) -> Body:
    plan_id = locked.plan.id
    (brief,), notes, output_rows = await locked.send(
        load.brief_statement(plan_id),
        load.SQL["formatting_notes"](plan_id=plan_id),
        details.outputs_statement(plan_id),
    )
    there, media_type = details.read_outputs(output_rows), brief.output_media_type
    steps = {step.id: step for step in locked.plan.steps}
    formatting: list[Json] = [_notes(steps[row.step_id], row.notes) for row in notes]
    body: Body = {
        "status": "plan_complete",
        "planId": plan_id,
        "outputMediaType": media_type,
        "outputFormattingInstructions": brief.formatting_instructions,
        "planFormattingNotes": brief.formatting_notes,
        "stepFormattingNotes": formatting,
        "outputs": [output_view(output) for output in latest(there)],
        "outputMissing": is_missing(there, media_type),
        "usage": locked.plan.usage.as_reply(),
        **non_empty(budget=budget_view(locked.plan)),
        "next": next_after_completion(plan_id, media_type, brief.skill_execution_id, there),
    }
    detail_call = next_call("get_research_context", "what is stored with the plan", planId=plan_id)
    return fit_reply(body, ("outputs", "stepFormattingNotes"), detail_call)


def _notes(step: Step, notes: Json) -> Json:
    return non_empty(stepId=step.id, stepOrder=step.order, notes=notes, **completion_view(step))


async def _awaiting(locked: LockedPlan) -> Body:
    (rows,) = await locked.send(load.review_statement(locked.plan.id))
    review, base_url = load.read_review(rows), locked.ctx.services.base_url
    why = "a person decides; pass on their decision, or ask again later"
    return {
        "status": "awaiting_review",
        "planId": locked.plan.id,
        "review": review_view(review, locked.plan.id, base_url) if review else None,
        "next": next_call("get_plan_status", why, planId=locked.plan.id),
    }


def _nothing(nothing: NothingPending, plan_id: str) -> Body:
    others = (*nothing.in_progress, *nothing.failed, *nothing.waiting)
    steps: list[Json] = [holder_view(step) for step in others]
    why = "others still work; a stuck or failed step can be given back with modify_plan retry_step"
    body: Body = {
        "status": "no_pending_steps",
        "planId": plan_id,
        "inProgress": len(nothing.in_progress),
        "failed": len(nothing.failed),
        **({"waiting": len(nothing.waiting)} if nothing.waiting else {}),
        "steps": steps,
        "next": next_call("get_plan_status", why, planId=plan_id),
    }
    detail_call = next_call("get_plan_status", "the whole list", planId=plan_id, detail=True)
    return fit_reply(body, ("steps",), detail_call)


TOOL = Tool(
    name="get_next_step",
    title="Take the next step",
    description=(
        "Take the next step of a plan, or the step you hold. Do it, then call submit_step_result "
        "with its stepId and attempt. status: step_ready; awaiting_review (a person decides); "
        "no_pending_steps (try later); plan_complete; plan_failed."
    ),
    arguments=GetNextStep,
    output_schema=output_schema(status="string"),
    run=get_next_step,
)
