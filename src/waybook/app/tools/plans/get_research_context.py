"""get_research_context: the data that a new conversation needs to continue a plan."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from waybook.app.context.continuation import read_continuation
from waybook.app.context.parts import (
    MAX_TOKENS,
    MIN_TOKENS,
    REPLY_TOKENS,
    PacketReader,
    byte_budget,
)
from waybook.app.context.plan import PlanMaterial, named_list, plan_frame, plan_parts
from waybook.app.queries.audit import changes_in
from waybook.app.request.answers import build_within
from waybook.app.request.arguments import DetailField, Id, Offset, PlanIdField, SessionArguments
from waybook.app.request.locks.aggregates import LockedPlan
from waybook.app.request.plan_access import load_plan
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.app.request.search.search_backend import search_backend
from waybook.app.request.tool import Tool, output_schema
from waybook.app.tools.plans.get_step_context import (
    EXCERPT_BYTES,
    matching_artifacts,
    order_by_hits,
)
from waybook.core.changes import Entity
from waybook.json_values import Body, Json
from waybook.plan.model import Plan
from waybook.plan.settle import is_new_session, resume_session
from waybook.plan.states import CLOSED_PLAN
from waybook.research.packet import build_packet
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.plans import contexts, load
from waybook.store.plans.contexts import Page
from waybook.store.plans.load import PlanRequest

LISTS = ("steps", "artifacts")
RECENT_EVENTS = 8
MAX_EVENTS_SINCE = 200


class GetResearchContext(SessionArguments):
    plan_id: PlanIdField
    since: Offset | None = Field(default=None, description="return only changes after this seq")
    budget_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_TOKENS)] | None = Field(
        default=None, description="size in tokens"
    )
    detail: DetailField = False
    part: Id | None = Field(default=None, description="part that cut names")
    offset: Offset = Field(default=0, description="continue at this character")


async def get_research_context(ctx: RequestContext, args: GetResearchContext) -> Body:
    """Return the plan with its question, steps, results, open review, artifacts and last events."""
    plan_id = id_or_nil(args.plan_id).lower()
    reader = PacketReader("get_research_context", {"planId": plan_id})
    most = byte_budget(args.budget_tokens, detail=args.detail)
    if args.part is not None and args.part not in LISTS:
        ending = next_call("get_research_context", "Go back to the plan.", **reader.args)
        page = Page(args.offset, most)
        return await read_continuation(ctx, reader, plan_id, args.part, page, ending)
    material = await _material(ctx, plan_id, args, most)
    if is_new_session(material.plan, ctx.session):
        await _note_session(ctx, plan_id)
    if args.part is not None:
        head, every = Body(planId=plan_id), named_list(args.part, material, reader)
    else:
        material = await _with_what_matters(ctx, material)
        head, every = plan_frame(material), plan_parts(material, reader)
    again = reader.with_more_room(budgetTokens=REPLY_TOKENS)
    last: Body = {"next": _next(material.plan)}
    return build_within(
        lambda room: build_packet(head, every, ending=last, room=room, again=again), most
    )


async def _material(
    ctx: RequestContext, plan_id: str, args: GetResearchContext, most: int
) -> PlanMaterial:
    library = search_backend(ctx.services)
    page = Page(args.offset if args.part else 0, most)
    wanted = PlanRequest(plan_id=plan_id, holder=ctx.actor().holder)
    loaded, result_sets = await load_plan(
        ctx,
        wanted,
        load.brief_statement(plan_id),
        contexts.instructions_statement(plan_id, most),
        contexts.results_statement(plan_id, most),
        contexts.newest_statement(plan_id, None, page._replace(most=EXCERPT_BYTES)),
        audit.SQL["tail"](subject_id=plan_id, most=RECENT_EVENTS)
        if args.since is None
        else audit.SQL["entries"](subject_id=plan_id, since=args.since, most=MAX_EVENTS_SINCE),
        *library.pending_statements(),
    )
    (brief,), instructions, results, newest, entries, *able = result_sets
    library.store_capabilities(able)
    events = audit.read_entries(entries)
    return PlanMaterial(
        plan=loaded.plan,
        brief=brief,
        instructions=instructions,
        results=results,
        newest=newest,
        entries=events,
        base_url=ctx.services.base_url,
        since=args.since,
        changed=None if args.since is None else _changed(events, Entity.STEP),
        page=page,
    )


async def _with_what_matters(ctx: RequestContext, material: PlanMaterial) -> PlanMaterial:
    """Add the artifacts that match the plan's question or, with `since`, all newer ones."""
    plan_id = material.plan.id
    if material.since is not None:
        stored = sorted(_changed(material.entries, Entity.ARTIFACT))
        hits = dict.fromkeys(stored, 0)
    elif material.newest:
        hits = await matching_artifacts(ctx, plan_id, material.brief.question)
    else:
        hits = {}
    if not hits:
        return material
    (rows,) = await ctx.read(contexts.artifacts_statement(plan_id, hits, EXCERPT_BYTES))
    return replace(material, ranked=order_by_hits(rows, hits))


async def _note_session(ctx: RequestContext, plan_id: str) -> None:
    async with LockedPlan(ctx, plan_id=plan_id) as locked:
        await locked.write(resume_session(locked.plan, locked.decision_context))


def _changed(entries: Sequence[SealedEntry], entity: Entity) -> frozenset[str]:
    return frozenset(change.id for change in changes_in(entries) if change.entity == entity)


def _next(plan: Plan) -> Json:
    if plan.status in CLOSED_PLAN:
        return next_call("list_active_plans", "This plan has ended. List the open plans.")
    return next_call("get_next_step", "Claim the next step.", planId=plan.id)


TOOL = Tool(
    name="get_research_context",
    title="Resume a plan",
    description="Everything a new conversation needs to resume a plan; then call get_next_step.",
    arguments=GetResearchContext,
    output_schema=output_schema(planId="string"),
    run=get_research_context,
    reads_only=True,
)
