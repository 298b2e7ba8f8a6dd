"""The context with which a new conversation continues a plan."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from waybook.app.context.parts import (
    BudgetTokens,
    PacketReader,
    byte_budget,
    read_continuation,
    results_by_step,
)
from waybook.app.queries.audit import changes_in, entry_details
from waybook.app.request import arguments as arg
from waybook.app.request.access import load_plan
from waybook.app.request.caller import review_url
from waybook.app.request.locks.aggregates import LockedPlan
from waybook.app.request.reply import (
    canceled_view,
    completion_view,
    next_call,
    origin_view,
    step_header,
)
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool
from waybook.app.tools.plans.step_context import (
    EXCERPT_BYTES,
    matching_artifacts,
    order_by_hits,
)
from waybook.core.changes import Entity
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.model import CLOSED_PLAN, TERMINAL_STEP, Plan, Step
from waybook.plan.progress import open_review, plan_progress
from waybook.plan.settle import is_new_session, resume_session
from waybook.research.packet import Entry, EntryList, FetchCall, Part, SingleEntry
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.driver.queries import Row
from waybook.store.plans import contexts, load
from waybook.store.plans.contexts import (
    Page,
    StoredArtifact,
    TextPrefix,
    total_count,
)
from waybook.store.plans.load import PlanRequest
from waybook.store.plans.rows import PlanBrief

_LISTS = ("steps", "artifacts")
_RECENT_EVENTS = 8
_MAX_EVENTS_SINCE = 200


class _GetResearchContext(arg.SessionArguments):
    plan_id: arg.PlanIdField
    since: arg.Offset | None = arg.optional("return only what is new since this seq")
    budget_tokens: BudgetTokens | None = arg.optional("reply size in tokens")
    detail: arg.DetailField = False
    part: arg.PartField | None = arg.optional("read this part, which cut named")
    offset: arg.Offset = arg.optional("continue at this character", default=0)


class _PlanMaterial(NamedTuple):
    plan: Plan
    brief: PlanBrief
    instructions: Sequence[Row]
    results: Sequence[Row]
    newest: Sequence[StoredArtifact]
    entries: Sequence[SealedEntry]
    #: Artifacts that a search found, best first. If `since` is set, the artifacts that were stored
    #: after that audit entry.
    ranked: Sequence[StoredArtifact]
    #: Number of an audit entry, if the context should contain only later changes.
    since: int | None


@Tool(
    title="Resume a plan",
    description="Everything a new conversation needs to resume a plan; then call get_next_step.",
    reply={"planId": "string"},
    reads_only=True,
)
async def get_research_context(ctx: RequestContext, args: _GetResearchContext) -> Body:
    plan_id = args.plan_id
    reader = PacketReader("get_research_context", {"planId": plan_id})
    most = byte_budget(args.budget_tokens, detail=args.detail)
    page = Page(args.offset if args.part else 0, most)
    if args.part is not None and args.part not in _LISTS:
        ending = next_call("get_research_context", "Go back to the plan.", **reader.args)
        return await read_continuation(ctx, reader, plan_id, args.part, page, ending)
    material = await _material(ctx, args, page)
    plan, brief = material.plan, material.brief
    if is_new_session(plan, ctx.session):
        async with LockedPlan(ctx, plan_id=plan_id) as locked:
            await locked.write(resume_session(locked.plan, locked.decision_context))
    following = next_call("get_next_step", "Claim the next step.", planId=plan_id)
    if plan.status in CLOSED_PLAN:
        why = "This plan has ended. List the open plans."
        following = next_call("list_active_plans", why)
    if args.part is None:
        frame = non_empty(
            planId=plan.id,
            status=str(plan.status),
            **canceled_view(plan),
            progress=plan_progress(plan).as_reply(),
            seq=plan.seq,
            revision=plan.revision,
            skill=brief.skill,
            outputMediaType=brief.output_media_type,
            createdAt=format_time(brief.created_at),
            createdBy=brief.created_by,
            copiedFrom=origin_view(plan),
        )
        parts = _parts(material, reader, ctx.services.base_url)
        return reader.reply(frame, parts, following, most)
    if args.part == "steps":
        steps = plan.steps[page.offset :]
        entries, total = [*_entries(steps, material, reader)], len(plan.steps)
    else:
        entries = [reader.artifact(stored) for stored in material.newest]
        total = total_count(material.newest)
    part = reader.page(args.part, entries, page, total)
    return reader.reply({"planId": plan_id}, [part], following, most)


async def _material(ctx: RequestContext, args: _GetResearchContext, page: Page) -> _PlanMaterial:
    plan_id, most = args.plan_id, page.most
    loaded, ((brief,), instructions, results, newest, entries) = await load_plan(
        ctx,
        PlanRequest(plan_id=plan_id, holder=ctx.actor().holder),
        load.SQL["brief"](plan_id=plan_id),
        contexts.SQL["instruction_prefixes"](plan_id=plan_id, most=most),
        contexts.SQL["result_prefixes"](plan_id=plan_id, most=most),
        contexts.SQL["newest_artifacts"](
            plan_id=plan_id, step_id=None, offset=page.offset, most=EXCERPT_BYTES
        ),
        audit.SQL["tail"](subject_id=plan_id, most=_RECENT_EVENTS)
        if args.since is None
        else audit.SQL["entries"](subject_id=plan_id, since=args.since, most=_MAX_EVENTS_SINCE),
    )
    hits: dict[str, int] = {}
    if args.part is None and args.since is not None:
        hits = dict.fromkeys(sorted(_changed(entries, Entity.ARTIFACT)), 0)
    elif args.part is None and newest:
        hits = await matching_artifacts(ctx, plan_id, brief.question)
    ranked: list[StoredArtifact] = []
    if hits:
        (rows,) = await ctx.read(contexts.artifacts_statement(plan_id, hits, EXCERPT_BYTES))
        ranked = order_by_hits(rows, hits)
    return _PlanMaterial(
        loaded.plan, brief, instructions, results, newest, entries, ranked, args.since
    )


def _changed(entries: Sequence[SealedEntry], entity: Entity) -> frozenset[str]:
    return frozenset(change.id for change in changes_in(entries) if change.entity == entity)


def _parts(of: _PlanMaterial, reader: PacketReader, base_url: str) -> list[Part]:
    brief = of.brief
    if of.since is None:
        newest, total = of.newest, total_count(of.newest)
    else:
        newest, total = [], len(of.ranked)
    return [
        *reader.text("name", of.plan.name),
        *reader.text("researchQuestion", brief.question if of.since is None else None, counts=3),
        *reader.text("planFormattingNotes", brief.formatting_notes, counts=2),
        *reader.text("outputFormattingInstructions", brief.formatting_instructions, counts=2),
        *reader.text("reason", of.plan.fail_reason, counts=2),
        *_review(of.plan, reader, base_url),
        _steps(of, reader),
        reader.artifacts(of.ranked, newest, total, counts=3),
        _events(of, reader),
    ]


def _review(plan: Plan, reader: PacketReader, base_url: str) -> Iterator[Part]:
    review = open_review(plan)
    if review is None:
        return
    frame = non_empty(
        reviewId=review.id,
        stepId=review.step_id,
        requestedAt=format_time(review.requested_at),
        requestedBy=review.requested_by,
        reviewUrl=review_url(plan.id, base_url),
    )
    questions: list[Json] = [*review.questions]
    texts = (
        *reader.text("summary", review.summary, part=f"summary:{review.id}"),
        *reader.text("questions", questions, part=f"questions:{review.id}"),
    )
    entry = Entry(frame=frame, texts=texts, several=True)
    yield SingleEntry(name="openReview", entry=entry, counts=3)


def _steps(of: _PlanMaterial, reader: PacketReader) -> EntryList:
    """Return the steps in order. If space is short, the steps near the first open step are kept."""
    steps, is_complete = of.plan.steps, of.since is None
    if not is_complete:
        changed = _changed(of.entries, Entity.STEP)
        steps = tuple(step for step in steps if step.id in changed)
    now = next((at for at, s in enumerate(steps) if s.status not in TERMINAL_STEP), len(steps) - 1)
    return EntryList(
        name="steps",
        entries=tuple(_entries(steps, of, reader)),
        get=reader.get("steps"),
        resume=lambda shown: {"offset": shown if is_complete else 0},
        focus=max(0, now),
        counts=6,
    )


def _entries(steps: Sequence[Step], of: _PlanMaterial, reader: PacketReader) -> Iterator[Entry]:
    instructions = {row.step_id: TextPrefix(row.text, row.length) for row in of.instructions}
    results = results_by_step(of.results)
    for step in steps:
        confidence, result = results.get(step.id, (None, None))
        waits_for: list[Json] = [*step.depends_on]
        last_activity = None
        if step.completed_at is None:
            times = [at for at in (step.in_progress_since, step.last_seen_at) if at]
            last_activity = format_time(max(times, default=None))
        yield Entry(
            frame=step_header(
                step,
                attempt=step.attempt,
                heldBy=step.held_by if step.completed_at is None else None,
                confidence=confidence,
                **completion_view(step),
                lastActivityAt=last_activity,
            ),
            texts=(
                *reader.text("dependsOn", waits_for or None, part=f"dependsOn:{step.id}"),
                *reader.text("failReason", step.fail_reason, part=f"failReason:{step.id}"),
                *reader.beginning(
                    "instructions", instructions.get(step.id), part=f"instructions:{step.id}"
                ),
                *reader.beginning("resultSummary", result, part=f"result:{step.id}", counts=3),
            ),
            several=True,
        )


def _events(of: _PlanMaterial, reader: PacketReader) -> EntryList:
    """Return the latest audit entries, newest first.

    If `since` is set, return the entries after it, oldest first.
    """
    entries = tuple(
        Entry(
            frame=non_empty(
                seq=entry.seq,
                at=format_time(entry.at),
                event=entry.event,
                actor=entry.actor,
                channel=entry.channel,
                sessionId=entry.session,
            ),
            texts=tuple(reader.text("details", entry_details(entry), part=f"event:{entry.seq}")),
        )
        for entry in of.entries
    )
    seqs = [entry.seq for entry in of.entries]
    numbers = [of.since, *seqs] if of.since is not None else [0] * (len(seqs) + 1)
    beyond = min(seqs, default=1) - 1 if of.since is None else of.plan.seq - max(numbers)
    return EntryList(
        name="recentEvents",
        entries=entries,
        get=FetchCall(reader.tool, reader.args),
        beyond=max(0, beyond),
        resume=lambda shown: {"since": numbers[shown]},
        counts=2,
    )
