"""get_research_context: everything a new conversation needs to go on with a plan."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.plan.model import Plan
from waybook.plan.sessions import is_new_session, resume_session
from waybook.plan.states import CLOSED_PLAN
from waybook.record.changes import Entity
from waybook.record.moment import Json
from waybook.research.packet import packet
from waybook.store import audit, contexts, plans
from waybook.store.audit import Sealed
from waybook.store.contexts import Page
from waybook.store.plans import Wanted
from waybook.usecases.arguments import Id, InSession
from waybook.usecases.audit_trail import changes_in
from waybook.usecases.call import Body, Call, known
from waybook.usecases.flags import within
from waybook.usecases.get_step_context import EXCERPT, in_order, matching
from waybook.usecases.packet_parts import (
    ENOUGH_TOKENS,
    LEAST_TOKENS,
    MOST_TOKENS,
    Reader,
    room,
)
from waybook.usecases.plan_packet import Material, frame, list_named, parts
from waybook.usecases.reading_on import read_on
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import Tool
from waybook.usecases.views import following

#: The lists that can be read on by themselves.
LISTS = ("steps", "artifacts")
TAIL = 15
MOST_SINCE = 200


class GetResearchContext(InSession):
    plan_id: Id
    since: int | None = Field(None, ge=0, description="a seq: only news")
    budget_tokens: int | None = Field(None, ge=LEAST_TOKENS, le=MOST_TOKENS)
    detail: bool = False
    # In no list of tools: whoever needs them finds them in the call that a reply names.
    part: SkipJsonSchema[Id | None] = None
    offset: SkipJsonSchema[int] = Field(0, ge=0, lt=2**30)


async def get_research_context(call: Call, asked: GetResearchContext) -> Body:
    """The plan with its question, steps, results, open review, artifacts and last events.

    A session the plan has not met before is noted, once.
    """
    plan_id = known(asked.plan_id).lower()
    reader = Reader("get_research_context", {"planId": plan_id})
    most = room(asked.budget_tokens, detail=asked.detail)
    if asked.part is not None and asked.part not in LISTS:
        ending = following("get_research_context", "back to the plan", **reader.args)
        page = Page(asked.offset, most)
        return await read_on(call, reader, plan_id, asked.part, page, ending)
    material = await _material(call, plan_id, asked, most)
    if is_new_session(material.plan, call.session):
        await _note_session(call, plan_id)
    if asked.part is not None:
        head, every = Body(planId=plan_id), list_named(asked.part, material, reader)
    else:
        material = await _with_what_matters(call, material)
        head, every = frame(material), parts(material, reader)
    again = reader.again(budgetTokens=ENOUGH_TOKENS)
    last: Body = {"next": _next(material.plan)}
    return within(lambda room: packet(head, every, ending=last, room=room, again=again), most)


async def _material(call: Call, plan_id: str, asked: GetResearchContext, most: int) -> Material:
    library = call.house.library
    page = Page(asked.offset if asked.part else 0, most)
    wanted = Wanted(plan_id=plan_id, holder=call.actor().holder)
    loaded, found = await call.look(
        wanted,
        plans.brief_statement(plan_id),
        contexts.instructions_statement(plan_id, most),
        contexts.results_statement(plan_id, most),
        contexts.newest_statement(plan_id, None, page._replace(most=EXCERPT)),
        audit.SQL["tail"](subject_id=plan_id, most=TAIL)
        if asked.since is None
        else audit.SQL["entries"](subject_id=plan_id, since=asked.since, most=MOST_SINCE),
        *library.unasked(),
    )
    brief, instructions, results, newest, entries, *able = found
    library.learn(able)
    events = audit.read_entries(entries)
    return Material(
        plan=loaded.plan,
        brief=brief[0],
        instructions=instructions,
        results=results,
        newest=newest,
        entries=events,
        base_url=call.house.base_url,
        since=asked.since,
        changed=None if asked.since is None else _changed(events, Entity.STEP),
        page=page,
    )


async def _with_what_matters(call: Call, material: Material) -> Material:
    """With the artifacts that matter for the plan's question; or those that are new."""
    plan_id = material.plan.id
    if material.since is not None:
        stored = sorted(_changed(material.entries, Entity.ARTIFACT))
        found = dict.fromkeys(stored, 0)
    elif material.newest:
        found = await matching(call, plan_id, material.brief[0])
    else:
        found = {}
    if not found:
        return material
    (rows,) = await call.read(contexts.artifacts_statement(plan_id, found, EXCERPT))
    return replace(material, ranked=in_order(rows, found))


async def _note_session(call: Call, plan_id: str) -> None:
    async with call.locked(plan_id=plan_id) as held:
        await held.write(resume_session(held.plan, held.moment), {})


def _changed(entries: Sequence[Sealed], entity: Entity) -> frozenset[str]:
    return frozenset(change.id for change in changes_in(entries) if change.entity == entity)


def _next(plan: Plan) -> Json:
    if plan.status in CLOSED_PLAN:
        return following("list_active_plans", "this plan is over; see the others")
    return following("get_next_step", "go on with the plan", planId=plan.id)


TOOL = Tool(
    name="get_research_context",
    title="Resume a plan",
    description="What a new conversation needs to go on with a plan.",
    arguments=GetResearchContext,
    output_schema=output_schema(planId="string"),
    run=get_research_context,
    reads_only=True,
)
