"""get_step_context: context of a step, within a token budget."""

from typing import Annotated

from pydantic import Field

from waybook.app.context.continuation import STEP_PARTS, read_continuation
from waybook.app.context.parts import (
    MAX_TOKENS,
    MIN_TOKENS,
    REPLY_TOKENS,
    PacketReader,
    byte_budget,
)
from waybook.app.context.step import StepMaterial, named_list, step_frame, step_parts
from waybook.app.queries.research_search import run_search
from waybook.app.request.answers import build_within
from waybook.app.request.arguments import Id, Offset, ReadArguments, StepIdField
from waybook.app.request.plan_access import load_plan
from waybook.app.request.reply import next_call, work_call
from waybook.app.request.request_context import RequestContext, id_or_nil, not_found
from waybook.app.request.search.search_backend import search_backend
from waybook.app.request.tool import Tool, output_schema
from waybook.json_values import Body, Json
from waybook.plan.model import Plan, Step, StepId
from waybook.plan.states import TERMINAL_STEP
from waybook.research.packet import build_packet
from waybook.store.plans import contexts, load
from waybook.store.plans.contexts import ArtifactRow, Page, StepSubject, StoredArtifact
from waybook.store.plans.load import PlanRequest
from waybook.store.research.search import Scope

MAX_MATCHES = 20
EXCERPT_BYTES = 1_200
LISTS = ("feedback", "failures", "soFar", "earlierResults", "artifacts")


class GetStepContext(ReadArguments):
    step_id: StepIdField
    budget_tokens: Annotated[int, Field(ge=MIN_TOKENS, le=MAX_TOKENS)] | None = Field(
        default=None, description="size in tokens"
    )
    part: Id | None = Field(default=None, description="part that cut names")
    offset: Offset = Field(default=0, description="continue at this character")


async def get_step_context(ctx: RequestContext, args: GetStepContext) -> Body:
    """Return the step's instructions, earlier attempts and results, and relevant artifacts.

    The call also counts as a heartbeat.
    """
    step_id = id_or_nil(args.step_id).lower()
    about = await _about(ctx, step_id)
    reader = PacketReader("get_step_context", {"stepId": step_id})
    if args.part is None or args.part in LISTS:
        material = await _material(ctx, about, step_id, args)
        return _reply(material, reader, args)
    part = f"{args.part}:{step_id}" if args.part in STEP_PARTS else args.part
    page = Page(args.offset, byte_budget(args.budget_tokens))
    ending = next_call("get_step_context", "Go back to the step.", stepId=step_id)
    return await read_continuation(ctx, reader, about.plan_id, part, page, ending)


async def _about(ctx: RequestContext, step_id: str) -> StepSubject:
    """Record a heartbeat. Return the step's plan and the question to search for."""
    library = search_backend(ctx.services)
    _, rows, *able = await ctx.write_and_read(
        load.SQL["touch_step"](step_id=step_id),
        contexts.about_step_statement(step_id),
        *library.pending_statements(),
    )
    library.store_capabilities(able)
    if not rows:
        raise not_found("step")
    about: StepSubject = rows[0]
    ctx.cache_step_plan(step_id, about.plan_id)
    return about


async def _material(
    ctx: RequestContext, about: StepSubject, step_id: str, args: GetStepContext
) -> StepMaterial:
    plan_id, most = about.plan_id, byte_budget(args.budget_tokens)
    hits = await matching_artifacts(ctx, plan_id, about.question) if _searched(about, args) else {}
    page = Page(args.offset if args.part else 0, most)
    wanted = PlanRequest(plan_id=plan_id, texts=(step_id,), review=False)
    loaded, result_sets = await load_plan(
        ctx,
        wanted,
        load.brief_statement(plan_id),
        contexts.results_statement(plan_id, most),
        contexts.feedback_statement(plan_id, step_id, page),
        contexts.failures_statement(plan_id, step_id, page),
        contexts.newest_statement(plan_id, step_id, page),
        contexts.newest_statement(plan_id, None, page._replace(most=EXCERPT_BYTES)),
        contexts.artifacts_statement(plan_id, hits, EXCERPT_BYTES),
    )
    (brief,), results, feedback, failures, so_far, newest, ranked = result_sets
    if all(step.id != step_id for step in loaded.plan.steps):
        raise not_found("step")
    return StepMaterial(
        plan=loaded.plan,
        step=loaded.plan.step(StepId(step_id)),
        question=brief.question,
        results=results,
        feedback=feedback,
        failures=failures,
        so_far=so_far,
        newest=newest,
        ranked=order_by_hits(ranked, hits),
        page=page,
    )


def _searched(about: StepSubject, args: GetStepContext) -> bool:
    return about.has_research and args.part is None


async def matching_artifacts(ctx: RequestContext, plan_id: str, question: str) -> dict[str, int]:
    results, _ = await run_search(ctx, question, Scope(plan_id=plan_id))
    return {hit.subject_id: hit.part for hit in results.hits[:MAX_MATCHES]}


def order_by_hits(rows: list[ArtifactRow], hits: dict[str, int]) -> list[StoredArtifact]:
    stored = {row.id: contexts.read_stored(row) for row in rows}
    return [stored[artifact_id] for artifact_id in hits if artifact_id in stored]


def _reply(material: StepMaterial, reader: PacketReader, args: GetStepContext) -> Body:
    plan, step = material.plan, material.step
    ending: Body = {"next": _next(plan, step)}
    again = reader.with_more_room(budgetTokens=REPLY_TOKENS)
    most = byte_budget(args.budget_tokens)
    if args.part is None:
        head, every = step_frame(material), step_parts(material, reader)
    else:
        head = Body(planId=plan.id, stepId=step.id)
        every = named_list(args.part, material, reader)
    return build_within(
        lambda room: build_packet(head, every, ending=ending, room=room, again=again), most
    )


def _next(plan: Plan, step: Step) -> Json:
    if step.status in TERMINAL_STEP:
        return next_call("get_next_step", "This step has ended. Claim another.", planId=plan.id)
    if step.answers_revision is not None:
        why = "The instructions were changed. Confirm that you have the new ones."
        return next_call("get_next_step", why, planId=plan.id)
    return work_call(step)


TOOL = Tool(
    name="get_step_context",
    title="Get step context",
    description="Instructions, earlier results and research of a step. Renews your hold on it.",
    arguments=GetStepContext,
    output_schema=output_schema(stepId="string"),
    run=get_step_context,
    reads_only=True,
)
