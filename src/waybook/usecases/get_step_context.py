"""get_step_context: what a step needs to know, in as many tokens as there are."""

from typing import Any, NamedTuple

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.plan.model import Plan, Step, StepId
from waybook.plan.states import TERMINAL_STEP
from waybook.record.moment import Json
from waybook.research.packet import packet
from waybook.store import contexts, plans
from waybook.store.contexts import Page, Stored
from waybook.store.plans import Wanted
from waybook.store.search import Scope
from waybook.usecases.arguments import Id, Reading
from waybook.usecases.call import Body, Call, known, not_found
from waybook.usecases.flags import within
from waybook.usecases.packet_parts import (
    ENOUGH_TOKENS,
    LEAST_TOKENS,
    MOST_TOKENS,
    Reader,
    room,
)
from waybook.usecases.reading_on import OF_STEP, read_on
from waybook.usecases.schemas import output_schema
from waybook.usecases.searching import find
from waybook.usecases.step_packet import Material, frame, list_named, parts
from waybook.usecases.tool import Tool
from waybook.usecases.views import following

#: How many artifacts of those that search finds are looked at.
FOUND = 20
#: How much of an artifact is read.
EXCERPT = 1_200
#: The lists that can be read on by themselves.
LISTS = ("feedback", "failures", "soFar", "earlierResults", "artifacts")


class GetStepContext(Reading):
    step_id: Id
    budget_tokens: int | None = Field(None, ge=LEAST_TOKENS, le=MOST_TOKENS)
    # In no list of tools: whoever needs them finds them in the call that a reply names.
    part: SkipJsonSchema[Id | None] = None
    offset: SkipJsonSchema[int] = Field(0, ge=0, lt=2**30)


class About(NamedTuple):
    """What a step is about, and where it belongs."""

    plan_id: str
    question: str
    has_research: bool


async def get_step_context(call: Call, asked: GetStepContext) -> Body:
    """The step's instructions, what earlier attempts left, earlier results, artifacts that matter.

    A sign of life: whoever reads up on a step is working on it.
    """
    step_id = known(asked.step_id).lower()
    about = await _about(call, step_id)
    reader = Reader("get_step_context", {"stepId": step_id})
    if asked.part is None or asked.part in LISTS:
        material = await _material(call, about, step_id, asked)
        return _reply(material, reader, asked)
    part = f"{asked.part}:{step_id}" if asked.part in OF_STEP else asked.part
    page = Page(asked.offset, room(asked.budget_tokens))
    ending = following("get_step_context", "back to the step", stepId=step_id)
    return await read_on(call, reader, about.plan_id, part, page, ending)


async def _about(call: Call, step_id: str) -> About:
    """Touch the step, and learn what it is about."""
    library = call.house.library
    _, found, *able = await call.touch(
        plans.SQL["touch_step"](step_id=step_id),
        contexts.about_step_statement(step_id),
        *library.unasked(),
    )
    library.learn(able)
    if not found:
        raise not_found("step")
    about = About(*found[0])
    call.remember(step_id, about.plan_id)
    return about


async def _material(call: Call, about: About, step_id: str, asked: GetStepContext) -> Material:
    plan_id, most = about.plan_id, room(asked.budget_tokens)
    hits = await matching(call, plan_id, about.question) if _searched(about, asked) else {}
    page = Page(asked.offset if asked.part else 0, most)
    wanted = Wanted(plan_id=plan_id, texts=(step_id,), review=False)
    loaded, found = await call.look(
        wanted,
        plans.brief_statement(plan_id),
        contexts.results_statement(plan_id, most),
        contexts.feedback_statement(plan_id, step_id, page),
        contexts.failures_statement(plan_id, step_id, page),
        contexts.newest_statement(plan_id, step_id, page),
        contexts.newest_statement(plan_id, None, page._replace(most=EXCERPT)),
        contexts.artifacts_statement(plan_id, hits, EXCERPT),
    )
    brief, results, feedback, failures, so_far, newest, ranked = found
    if all(step.id != step_id for step in loaded.plan.steps):
        raise not_found("step")
    return Material(
        plan=loaded.plan,
        step=loaded.plan.step(StepId(step_id)),
        question=brief[0][0],
        results=results,
        feedback=feedback,
        failures=failures,
        so_far=so_far,
        newest=newest,
        ranked=in_order(ranked, hits),
        page=page,
    )


def _searched(about: About, asked: GetStepContext) -> bool:
    return about.has_research and asked.part is None


async def matching(call: Call, plan_id: str, question: str) -> dict[str, int]:
    """What a plan has that matters for a question, best first: ids, and the passages found."""
    found, _ = await find(call, question, Scope(plan_id=plan_id))
    return {hit.subject_id: hit.part for hit in found.hits[:FOUND]}


def in_order(rows: list[tuple[Any, ...]], hits: dict[str, int]) -> list[Stored]:
    """What was found, in the order it was found in. Sources are no artifacts, and fall out."""
    stored = {row[0]: contexts.read_stored(row) for row in rows}
    return [stored[artifact_id] for artifact_id in hits if artifact_id in stored]


def _reply(material: Material, reader: Reader, asked: GetStepContext) -> Body:
    plan, step = material.plan, material.step
    ending: Body = {"next": _next(plan, step)}
    again = reader.again(budgetTokens=ENOUGH_TOKENS)
    most = room(asked.budget_tokens)
    if asked.part is None:
        head, every = frame(material), parts(material, reader)
    else:
        head = Body(planId=plan.id, stepId=step.id)
        every = list_named(asked.part, material, reader)
    return within(lambda room: packet(head, every, ending=ending, room=room, again=again), most)


def _next(plan: Plan, step: Step) -> Json:
    if step.status in TERMINAL_STEP:
        return following("get_next_step", "this step is over; take another", planId=plan.id)
    why = "when the work is done"
    return following("submit_step_result", why, stepId=step.id, attempt=step.attempt)


TOOL = Tool(
    name="get_step_context",
    title="Read up on a step",
    description="Instructions, earlier results, artifacts of a step. A sign of life.",
    arguments=GetStepContext,
    output_schema=output_schema(stepId="string"),
    run=get_step_context,
    reads_only=True,
)
