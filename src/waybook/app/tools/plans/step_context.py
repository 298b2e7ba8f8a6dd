"""The context for an agent that works on a step. The most important parts come first."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from waybook.app.context.parts import (
    STEP_PARTS,
    BudgetTokens,
    PacketReader,
    byte_budget,
    read_continuation,
    results_by_step,
)
from waybook.app.queries.search import run_search
from waybook.app.request.access import load_plan
from waybook.app.request.arguments import Offset, PartField, ReadArguments, StepIdField, optional
from waybook.app.request.reply import (
    author_view,
    completion_view,
    next_call,
    round_view,
    step_header,
    work_call,
)
from waybook.app.request.request_context import RequestContext, not_found
from waybook.app.request.tool import Tool
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.draft import copy_call
from waybook.plan.model import CLOSED_PLAN, TERMINAL_STEP, Plan, Step
from waybook.plan.repeat import round_of
from waybook.research.packet import Entry, EntryList, Part, SingleEntry
from waybook.store.driver.queries import Row
from waybook.store.plans import contexts, load
from waybook.store.plans.contexts import (
    Page,
    StoredArtifact,
    TextPrefix,
    total_count,
)
from waybook.store.plans.load import PlanRequest
from waybook.store.research.search import Scope

_MAX_MATCHES = 20
EXCERPT_BYTES = 1_200
_LISTS = ("feedback", "failures", "soFar", "earlierResults", "artifacts")


class _GetStepContext(ReadArguments):
    step_id: StepIdField
    budget_tokens: BudgetTokens | None = optional("reply size in tokens")
    part: PartField | None = optional("read this part, which cut named")
    offset: Offset = optional("continue at this character", default=0)


class _StepMaterial(NamedTuple):
    plan: Plan
    step: Step
    question: str
    results: Sequence[Row]
    feedback: Sequence[Row]
    failures: Sequence[Row]
    so_far: Sequence[StoredArtifact]
    newest: Sequence[StoredArtifact]
    ranked: Sequence[StoredArtifact]
    page: Page


@Tool(
    title="Get step context",
    description="Instructions, earlier results and research of a step. Renews your hold on it.",
    reply={"stepId": "string"},
    reads_only=True,
)
async def get_step_context(ctx: RequestContext, args: _GetStepContext) -> Body:
    """Return the step's instructions, earlier attempts and results, and relevant artifacts.

    The call also counts as a heartbeat.
    """
    step_id = args.step_id
    _, rows = await ctx.write_and_read(
        load.SQL["touch_step"](step_id=step_id),
        contexts.SQL["about_step"](step_id=step_id),
    )
    if not rows:
        raise not_found("step")
    about = rows[0]
    ctx.cache_step_plan(step_id, about.plan_id)
    reader, most = (
        PacketReader("get_step_context", {"stepId": step_id}),
        byte_budget(args.budget_tokens),
    )
    if args.part is None or args.part in _LISTS:
        material = await _material(ctx, about, args, most)
        following = _next(material.plan, material.step)
        if args.part is None:
            return reader.reply(_frame(material), _parts(material, reader), following, most)
        if args.part == "artifacts":
            stored = [reader.artifact(each) for each in material.newest]
            total = total_count(material.newest)
            parts: list[Part] = [reader.page(args.part, stored, material.page, total)]
        else:
            parts = [part for part in _lists(material, reader) if part.name == args.part]
        return reader.reply({"planId": about.plan_id, "stepId": step_id}, parts, following, most)
    part = f"{args.part}:{step_id}" if args.part in STEP_PARTS else args.part
    ending = next_call("get_step_context", "Go back to the step.", stepId=step_id)
    page = Page(args.offset, most)
    return await read_continuation(ctx, reader, about.plan_id, part, page, ending)


async def _material(
    ctx: RequestContext, about: Row, args: _GetStepContext, most: int
) -> _StepMaterial:
    plan_id, step_id = about.plan_id, args.step_id
    hits: dict[str, int] = {}
    if about.has_research and args.part is None:
        hits = await matching_artifacts(ctx, plan_id, about.question)
    page = Page(args.offset if args.part else 0, most)
    of_step = {"plan_id": plan_id, "step_id": step_id, **page._asdict()}
    loaded, ((brief,), results, feedback, failures, so_far, newest, ranked) = await load_plan(
        ctx,
        PlanRequest(plan_id=plan_id, texts=(step_id,), review=False),
        load.SQL["brief"](plan_id=plan_id),
        contexts.SQL["result_prefixes"](plan_id=plan_id, most=most),
        contexts.SQL["feedback"](**of_step),
        contexts.SQL["failures"](**of_step),
        contexts.SQL["newest_artifacts"](**of_step),
        contexts.SQL["newest_artifacts"](**{**of_step, "step_id": None, "most": EXCERPT_BYTES}),
        contexts.artifacts_statement(plan_id, hits, EXCERPT_BYTES),
    )
    step = next((step for step in loaded.plan.steps if step.id == step_id), None)
    if step is None:
        raise not_found("step")
    return _StepMaterial(
        loaded.plan,
        step,
        brief.question,
        results,
        feedback,
        failures,
        so_far,
        newest,
        order_by_hits(ranked, hits),
        page,
    )


async def matching_artifacts(ctx: RequestContext, plan_id: str, question: str) -> dict[str, int]:
    results, _ = await run_search(ctx, question, Scope(plan_id=plan_id))
    return {hit.subject_id: hit.part for hit in results.hits[:_MAX_MATCHES]}


def order_by_hits(rows: list[StoredArtifact], hits: dict[str, int]) -> list[StoredArtifact]:
    stored = {row.id: row for row in rows}
    return [stored[artifact_id] for artifact_id in hits if artifact_id in stored]


def _next(plan: Plan, step: Step) -> Json:
    if plan.status in CLOSED_PLAN and step.status not in TERMINAL_STEP:
        copy = copy_call(plan)
        return next_call(copy.tool, copy.why, planId=plan.id)
    if step.status in TERMINAL_STEP:
        return next_call("get_next_step", "This step has ended. Claim another.", planId=plan.id)
    if step.answers_revision is not None:
        why = "The instructions were changed. Confirm that you have the new ones."
        return next_call("get_next_step", why, planId=plan.id)
    return work_call(step)


def _frame(of: _StepMaterial) -> Body:
    plan, step = of.plan, of.step
    text, round_ = plan.texts[step.id], round_of(plan, step)
    return non_empty(
        planId=plan.id,
        stepId=step.id,
        stepOrder=step.order,
        stepType=str(step.type),
        status=str(step.status),
        attempt=step.attempt,
        answersRevision=step.answers_revision,
        round=round_view(round_) if round_ else None,
        **author_view(plan),
        requiredSources=text.required_sources,
        sourcesStored=len(text.sources) if text.required_sources else None,
    )


def _parts(of: _StepMaterial, reader: PacketReader) -> list[Part]:
    plan, step = of.plan, of.step
    text = plan.texts[step.id]
    waits_for: list[Json] = [*step.depends_on]
    always_included = ("earlierResults", "artifacts")
    return [
        *reader.text("instructions", text.instructions, counts=6),
        *reader.text("title", step.title),
        *reader.text("planName", plan.name, part="name"),
        *reader.text("researchQuestion", of.question, counts=2),
        *reader.text("resultSchema", text.result_schema, counts=2),
        *reader.text("dependsOn", waits_for or None),
        *reader.text("failReason", step.fail_reason),
        *(
            part
            for part in _lists(of, reader)
            if not isinstance(part, EntryList) or part.entries or part.name in always_included
        ),
    ]


def _lists(of: _StepMaterial, reader: PacketReader) -> Iterator[Part]:
    text = of.plan.texts[of.step.id].instructions
    decided = [_decided(row, text, reader) for row in of.feedback]
    failed = [
        Entry(
            frame=non_empty(seq=row.seq, at=format_time(row.at), by=row.actor),
            texts=tuple(
                reader.beginning(
                    "reason",
                    None if row.reason is None else TextPrefix(row.reason, row.length),
                    part=f"failure:{row.seq}",
                )
            ),
        )
        for row in of.failures
    ]
    results = results_by_step(of.results)
    yield reader.page("feedback", decided, of.page, total_count(of.feedback), counts=2)
    yield reader.page("failures", failed, of.page, total_count(of.failures), counts=2)
    stored = [reader.artifact(artifact) for artifact in of.so_far]
    yield reader.page("soFar", stored, of.page, total_count(of.so_far), counts=3)
    if of.step.id in results:
        confidence, read = results[of.step.id]
        own_result = Entry(
            frame=non_empty(confidence=confidence),
            texts=tuple(reader.beginning("resultSummary", read, part="result")),
        )
        yield SingleEntry(name="result", entry=own_result, counts=2)
    yield _earlier(of, results, reader)
    # In a copied plan, artifacts of this step have the id of the original step.
    own = {of.step.id, *(artifact.step_id for artifact in of.so_far)}
    others = [s for s in of.newest if s.step_id not in own]
    matter = [s for s in of.ranked if s.step_id not in own]
    yield reader.artifacts(
        matter, others, total_count(of.newest) - total_count(of.so_far), counts=4
    )


def _earlier(
    of: _StepMaterial, results: dict[str, tuple[float | None, TextPrefix]], reader: PacketReader
) -> EntryList:
    """Return the results of the dependencies or, without dependencies, of all earlier steps."""
    plan = of.plan
    before = [step for step in plan.steps if step.order < of.step.order]
    if of.step.depends_on:
        round_ = round_of(plan, of.step)
        named = {*of.step.depends_on, *(step.id for step in (round_.latest if round_ else ()))}
        before = [step for step in plan.steps if step.id in named]
    entries: list[Entry] = []
    for step in reversed(before):
        if step.id in results:
            confidence, read = results[step.id]
            texts = reader.beginning("resultSummary", read, part=f"result:{step.id}")
        elif step.id in of.step.depends_on:
            confidence = None
            texts = reader.text("failReason", step.fail_reason, part=f"failReason:{step.id}")
        else:
            continue
        frame = step_header(step, confidence=confidence, **completion_view(step))
        entries.append(Entry(frame=frame, texts=tuple(texts)))
    offset = of.page.offset
    return reader.page("earlierResults", entries[offset:], of.page, len(entries), counts=5)


def _decided(row: Row, instructions: str, reader: PacketReader) -> Entry:
    """Return a reviewer's decision. Feedback that is already in the instructions is left out."""
    frame = non_empty(
        reviewId=row.id,
        decision=row.decision,
        decidedBy=row.decided_by,
        decidedAt=format_time(row.decided_at),
    )
    feedback = row.feedback
    if feedback is None or (len(feedback) == row.length and feedback in instructions):
        return Entry(frame=frame)
    read = TextPrefix(feedback, row.length)
    texts = reader.beginning("feedback", read, part=f"feedback:{row.id}")
    return Entry(frame=frame, texts=tuple(texts))
