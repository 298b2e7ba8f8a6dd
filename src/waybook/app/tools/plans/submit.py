"""Tools that submit results, store outputs, request reviews, and pass on a person's decision."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema

from waybook.app.request import arguments as arg
from waybook.app.request import reply as replies
from waybook.app.request.access import plan_of_step
from waybook.app.request.caller import review_url
from waybook.app.request.locks.locking import (
    LockedPlan,
    OptionalPlanProposal,
    PlanProposal,
    Proposal,
    update,
)
from waybook.app.request.plan_arguments import UsageArgument, to_usage
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool
from waybook.app.tools.plans.get_next_step import next_step_reply
from waybook.core.decision_context import Channel, Scope
from waybook.json_values import Body, Json, non_empty
from waybook.plan.draft import Decision
from waybook.plan.model import (
    CLOSED_PLAN,
    BranchOutcome,
    DecisionKind,
    Plan,
    PlanStatus,
    StepId,
    StepStatus,
    StepType,
)
from waybook.plan.progress import progress_reply
from waybook.plan.repeat import texts_to_repeat
from waybook.plan.review import ReviewRequest, ReviewSurface, decide, request_review
from waybook.plan.store_output import COMMON_TYPES, NewOutput, parse_text_type, store_output
from waybook.plan.submit import StepDone, Submission, fired_branches, submit
from waybook.store.accounts import accounts
from waybook.store.plans import details, load
from waybook.store.plans.load import PlanBrief


class SubmitStepResult(arg.MutatingArguments):
    step_id: arg.StepIdField
    result_summary: arg.AnyJson = Field(
        description="the result: text, or JSON if conditions read its fields"
    )
    confidence: float | None = arg.optional("how sure you are", ge=0, le=1)
    step_execution_report: arg.AnyJson = arg.optional("how you worked")
    output_formatting_notes: arg.Text | None = arg.optional("how to format the plan's output")
    attempt: arg.Attempt | None = arg.optional("from get_next_step")
    usage: UsageArgument = None
    take_next: bool = arg.optional("also claim the next step", default=False)


@Tool(
    title="Submit a step's result",
    description=(
        "Complete your step; then call get_next_step, or set takeNext. STALE_ATTEMPT: another "
        "agent took over; your result does not count."
    ),
    reply={"planStatus": "string"},
)
async def submit_step_result(ctx: RequestContext, args: SubmitStepResult) -> ToolReply:
    arg.check_result_size(
        resultSummary=args.result_summary, stepExecutionReport=args.step_execution_report
    )
    submission = Submission(
        result_summary=args.result_summary,
        confidence=args.confidence,
        report=args.step_execution_report,
        formatting_notes=args.output_formatting_notes,
        usage=to_usage(args.usage),
        attempt=args.attempt,
    )
    step_id = StepId(args.step_id)
    plan_id = await plan_of_step(ctx, step_id)
    locked = LockedPlan(ctx, plan_id=plan_id, step_id=step_id, review=False, cached=True)

    async def decide() -> OptionalPlanProposal:
        context = locked.context
        if locked.plan.step(step_id).type is StepType.CHECKPOINT:
            if locked.is_cached:
                return None  # The review policy must be read from the database.
            (rows,) = await locked.send(accounts.SQL["review_policy"]())
            context = context._replace(policy=accounts.read_policy(rows))
        if not await locked.load_texts(texts_to_repeat(locked.plan, step_id)):
            return None
        patience = ctx.services.stall_threshold if args.take_next else None
        rule = partial(submit, locked.plan, step_id, submission, context, patience)
        decision = await _evaluate(ctx, locked.plan, step_id, rule)
        if decision.reply.following is None:
            return Proposal(decision, _submission_reply(decision))
        notes = {step_id: submission.formatting_notes} if submission.formatting_notes else {}
        results: Body = {step_id: submission.result_summary}
        claimed = await next_step_reply(locked, decision, decision.reply.following, notes, results)
        if claimed is None:
            return None
        status = str(decision.plan.status)
        body = {**claimed, "planStatus": status, "submitted": _outcome(decision)}
        return Proposal(decision, body)

    return await update(locked, decide)


async def _evaluate(
    ctx: RequestContext,
    plan: Plan,
    step_id: arg.StepIdField | None,
    rule: Callable[[], Decision[StepDone]],
) -> Decision[StepDone]:
    """Apply a rule that may evaluate conditions, and record their cost for the rate limit.

    If there are conditions, the rule runs in a thread, because it may take tens of milliseconds.
    """
    if not plan.conditions:
        return rule()
    waiting = plan.pending_conditions()
    has_conditions = any(step_id in {None, condition.step_id} for condition in waiting)
    org_id = ctx.caller.org_id
    decision = await ctx.services.cpu.run(org_id, rule) if has_conditions else rule()
    ctx.operations.extend(branch.cost for branch in decision.reply.branches)
    return decision


def _submission_reply(decision: Decision[StepDone]) -> Body:
    plan, done, outcome = decision.plan, decision.reply, _outcome(decision)
    why = "See how the plan ended." if plan.status in CLOSED_PLAN else "Claim the next step."
    return {
        "planId": plan.id,
        "stepId": done.step.id,
        "stepStatus": outcome.pop("stepStatus"),
        "planStatus": str(plan.status),
        "progress": outcome.pop("progress"),
        **non_empty(budget=replies.budget_view(plan)),
        "branches": [],
        **outcome,
        "next": replies.next_call("get_next_step", why, planId=plan.id),
    }


def _outcome(decision: Decision[StepDone]) -> Body:
    plan, done = decision.plan, decision.reply
    outcome: Body = {"stepStatus": str(done.step.status), "progress": progress_reply(plan)}
    if done.branches:
        branches: list[Json] = [branch.as_json() for branch in fired_branches(done.branches)]
        errors: list[Json] = [
            branch.as_json() for branch in done.branches if branch.outcome is BranchOutcome.ERROR
        ]
        outcome |= non_empty(branches=branches or None, conditionErrors=errors or None)
    if done.step.answers_revision is not None:
        outcome["answersRevision"] = done.step.answers_revision
    if plan.status is PlanStatus.FAILED and plan.fail_reason is not None:
        outcome["reason"] = plan.fail_reason
    return outcome


class _RequestUserReview(arg.MutatingArguments):
    step_id: arg.StepIdField
    summary: arg.Text = Field(description="what to decide")
    questions: arg.ListOf[arg.Text] | None = arg.optional("for the person", max_length=50)
    result_summary: arg.AnyJson = arg.optional("result if approved")
    attempt: arg.Attempt | None = arg.optional("from get_next_step")


@Tool(
    title="Ask a person",
    description=(
        "Ask a person to review your step; the plan pauses. Give them reviewUrl; if they "
        "answer you, call submit_user_decision."
    ),
    reply={"reviewUrl": "string"},
)
async def request_user_review(ctx: RequestContext, args: _RequestUserReview) -> ToolReply:
    arg.check_result_size(resultSummary=args.result_summary)
    request = ReviewRequest(
        summary=args.summary,
        questions=tuple(args.questions or ()),
        result_summary=args.result_summary,
        attempt=args.attempt,
    )
    step_id = StepId(args.step_id)
    locked = LockedPlan(ctx, plan_id=await plan_of_step(ctx, step_id), step_id=step_id)

    async def decide() -> PlanProposal:
        decision = request_review(locked.plan, step_id, request, locked.context)
        plan, review = decision.plan, decision.reply
        body: Body = {
            "planId": plan.id,
            "reviewId": review.id,
            "stepId": review.step_id,
            "stepStatus": str(plan.step(review.step_id).status),
            "planStatus": str(plan.status),
            "reviewUrl": review_url(plan.id, ctx.services.base_url),
            "next": replies.wait_for_review_call(plan.id),
        }
        return Proposal(decision, body)

    return await update(locked, decide)


#: Feedback that is stored if an agent says that a person wants changes, but not which changes.
_NO_FEEDBACK = "(The reviewer gave no details. Check the step and do it again.)"


class _SubmitUserDecision(arg.MutatingArguments):
    # The published schema requires the plan, but the id of the step under review is accepted too.
    model_config = ConfigDict(json_schema_extra={"required": ["planId", "decision"]})

    plan_id: arg.PlanIdField | None = arg.optional("the plan")
    step_id: arg.StepIdField | None = arg.optional("the step under review")
    decision: Literal["approve", "reject", "modify", "skip"] = Field(
        description="the person's, never yours"
    )
    feedback: arg.Text | None = arg.optional("their words")
    review_id: arg.ReviewIdField | None = arg.optional("the review they saw")
    #: Place where the person decided. The published schema omits this field, because agents do
    #: not set it: only the map app, the review form and the client library do.
    place: SkipJsonSchema[ReviewSurface | None] = None

    @model_validator(mode="after")
    def _require_plan_or_step(self) -> Self:
        if self.plan_id is None and self.step_id is None:
            raise ValueError("give the planId, or the stepId of the step under review")
        return self


@Tool(
    title="Pass on a decision",
    description=(
        "Pass on a person's decision: approve, modify (redo with feedback), skip or "
        "reject (plan fails). Then call get_next_step."
    ),
    reply={"planStatus": "string"},
    destructive=True,
    scopes=frozenset({Scope.PLAN_WRITE, Scope.REVIEW}),
)
async def submit_user_decision(ctx: RequestContext, args: _SubmitUserDecision) -> ToolReply:
    step_id = StepId(args.step_id) if args.step_id else None
    plan_id = args.plan_id or await plan_of_step(ctx, args.step_id or "")
    is_relayed = ctx.caller.channel is Channel.MCP and args.place is None
    missing = _NO_FEEDBACK if is_relayed and args.decision == "modify" else None
    policy = accounts.SQL["review_policy"]()
    locked = LockedPlan(ctx, policy, plan_id=plan_id, step_id=step_id, candidates=True)

    async def decide_review() -> PlanProposal:
        await locked.load_texts(texts_to_repeat(locked.plan, step_id))
        rule = partial(
            decide,
            locked.plan,
            DecisionKind(args.decision),
            locked.context._replace(policy=accounts.read_policy(locked.results[0])),
            feedback=args.feedback or missing,
            step_id=step_id,
            review_id=args.review_id,
            place=args.place,
        )
        decision = await _evaluate(ctx, locked.plan, step_id, rule)
        step = decision.reply.step
        body = {"decision": args.decision, **_submission_reply(decision)}
        if step.status is StepStatus.IN_PROGRESS and step.held_by:
            body["instructions"] = decision.plan.texts[step.id].instructions
            body["attempt"] = step.attempt
            body["next"] = replies.work_call(step)
        return Proposal(decision, body)

    return await update(locked, decide_review)


class _StoreResearchOutput(arg.MutatingArguments):
    plan_id: arg.PlanIdField
    media_type: Annotated[arg.Name, WithJsonSchema({"type": "string", "enum": [*COMMON_TYPES]})] = (
        Field(description="format of the text")
    )
    title: arg.Name = Field(description="reuse a title to store its next version")
    content: str = Field(min_length=1, description="the whole text")


@Tool(
    title="Store an output",
    description="Store an output of a plan, open or completed. Earlier versions are kept.",
    reply={"outputId": "string", "version": "integer"},
)
async def store_research_output(ctx: RequestContext, args: _StoreResearchOutput) -> ToolReply:
    """Store an output, as a new version if the plan has one with this title.

    An identical output changes nothing.
    """
    new = NewOutput(
        media_type=parse_text_type(args.media_type), title=args.title, content=args.content
    )
    plan_id = args.plan_id
    there = (details.outputs_statement(plan_id), load.SQL["brief"](plan_id=plan_id))
    locked = LockedPlan(ctx, *there, plan_id=plan_id, review=False)

    async def decide() -> PlanProposal:
        before = locked.results[0]
        decision = store_output(locked.plan, new, before, locked.context)
        plan, output = locked.plan, decision.reply.output
        following = replies.next_call("get_next_step", "Claim the next step.", planId=plan.id)
        if plan.status in CLOSED_PLAN:
            brief: PlanBrief = locked.results[1][0]
            following = replies.next_after_completion(
                plan.id, brief.output_media_type, brief.skill_execution_id, [*before, output]
            )
        body: Body = {
            "planId": plan.id,
            "status": "stored" if decision.reply.is_new else "unchanged",
            **replies.output_view(output),
            "resource": f"waybook://outputs/{output.id}",
            "downloadUrl": f"{ctx.services.base_url}/api/outputs/{output.id}",
            "next": following,
        }
        return Proposal(decision, body)

    return await update(locked, decide)
