"""submit_user_decision: submit a person's decision on a review."""

from functools import partial
from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from waybook.app.request.arguments import Id, MutatingArguments, PlanIdField, StepIdField, Text
from waybook.app.request.locks.aggregates import LockedPlan, PlanProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.plan_access import plan_of_step
from waybook.app.request.reply import work_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import Tool, output_schema
from waybook.app.tools.plans import submit_step_result
from waybook.core.decision_context import Channel, Scope
from waybook.json_values import Body
from waybook.plan.draft import Decision
from waybook.plan.model import DecisionKind, StepId
from waybook.plan.repeat import texts_to_repeat
from waybook.plan.review import ReviewSurface, decide
from waybook.plan.states import StepStatus
from waybook.plan.submit import StepDone
from waybook.store.accounts import accounts

#: Stored if an agent passes on that a person wants changes, but not which. The pages and forms
#: that people fill in require feedback.
NO_FEEDBACK = "(The reviewer gave no details. Check the step and do it again.)"


class SubmitUserDecision(MutatingArguments):
    # The schema lists the plan as required; the step under review stands for it too.
    model_config = ConfigDict(json_schema_extra={"required": ["planId", "decision"]})

    plan_id: PlanIdField | None = Field(default=None, description="the plan")
    step_id: StepIdField | None = Field(default=None, description="the step under review")
    decision: Literal["approve", "reject", "modify", "skip"] = Field(
        description="the person's, never yours"
    )
    feedback: Text | None = Field(default=None, description="their words")
    review_id: Id | None = Field(default=None, description="the review they saw")
    #: Place where the person decided. The map, the form and the client library set the place.
    place: SkipJsonSchema[ReviewSurface | None] = None

    @model_validator(mode="after")
    def _require_plan_or_step(self) -> Self:
        if self.plan_id is None and self.step_id is None:
            raise ValueError("give the planId, or the stepId under review")
        return self


async def submit_user_decision(ctx: RequestContext, args: SubmitUserDecision) -> ToolReply:
    """Apply a person's decision to the open review, once."""
    step_id = StepId(args.step_id.lower()) if args.step_id else None
    plan_id = args.plan_id or await plan_of_step(ctx, args.step_id or "")
    is_relayed = ctx.caller.channel is Channel.MCP and args.place is None
    missing = NO_FEEDBACK if is_relayed and args.decision == "modify" else None
    policy = accounts.policy_statement()
    locked = LockedPlan(ctx, policy, plan_id=plan_id, step_id=step_id, candidates=True)

    async def decide_review() -> PlanProposal:
        await locked.load_texts(texts_to_repeat(locked.plan, step_id))
        rule = partial(
            decide,
            locked.plan,
            DecisionKind(args.decision),
            locked.decision_context._replace(policy=accounts.read_policy(locked.results[0])),
            feedback=args.feedback or missing,
            step_id=step_id,
            review_id=args.review_id,
            place=args.place,
        )
        decision = await submit_step_result.evaluate(ctx, locked.plan, step_id, rule)
        return Proposal(decision, _reply(decision, args.decision))

    return await update(locked, decide_review)


def _reply(decision: Decision[StepDone], decision_kind: str) -> Body:
    step = decision.reply.step
    body = {"decision": decision_kind, **submit_step_result.submission_reply(decision)}
    if step.status is StepStatus.IN_PROGRESS and step.held_by:
        body["instructions"] = decision.plan.texts[step.id].instructions
        body["attempt"] = step.attempt
        body["next"] = work_call(step)
    return body


TOOL = Tool(
    name="submit_user_decision",
    title="Pass on a decision",
    description=(
        "Pass on a person's decision on a review: approve, modify (redo with feedback), skip or "
        "reject (plan fails). Then call get_next_step."
    ),
    arguments=SubmitUserDecision,
    output_schema=output_schema(planStatus="string"),
    run=submit_user_decision,
    destructive=True,
    scopes=frozenset({Scope.PLAN_WRITE, Scope.REVIEW}),
)
