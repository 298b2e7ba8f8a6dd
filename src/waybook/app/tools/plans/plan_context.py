"""The context with which a new conversation continues a plan."""

from collections.abc import Iterator, Sequence

from waybook.app.context.parts import BudgetTokens, PacketReader, byte_budget, results_by_step
from waybook.app.queries.audit import changes_in, entry_details
from waybook.app.request import arguments as arg
from waybook.app.request import reply as replies
from waybook.app.request.access import load_plan
from waybook.app.request.caller import review_url
from waybook.app.request.locks.aggregates import LockedPlan
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import Tool
from waybook.app.tools.plans.step_context import EXCERPT_BYTES, matching_artifacts, order_by_hits
from waybook.core.changes import Entity
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.model import CLOSED_PLAN, TERMINAL_STEP, Plan, Step
from waybook.plan.progress import open_review, plan_progress
from waybook.plan.settle import is_new_session, resume_session
from waybook.research.packet import Entry, EntryList, FetchCall, Part, SingleEntry
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.plans import contexts, load
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


@Tool(
    title="Resume a plan",
    description="Everything a new conversation needs to resume a plan; then call get_next_step.",
    reply={"planId": "string"},
    reads_only=True,
)
async def get_research_context(ctx: RequestContext, args: _GetResearchContext) -> Body:
    plan_id, context = args.plan_id, _PlanContext(args)
    if args.part is not None and args.part not in _LISTS:
        ending = next_call("get_research_context", "Go back to the plan.", **context.args)
        return await context.continuation(ctx, plan_id, args.part, ending)
    await context.load(ctx, with_search=args.part is None)
    plan = context.plan
    if is_new_session(plan, ctx.session):
        async with LockedPlan(ctx, plan_id=plan_id) as locked:
            await locked.write(resume_session(locked.plan, locked.decision_context))
    following = next_call("get_next_step", "Claim the next step.", planId=plan_id)
    if plan.status in CLOSED_PLAN:
        why = "This plan has ended. List the open plans."
        following = next_call("list_active_plans", why)
    if args.part is None:
        return context.reply(context.frame(), context.parts(ctx.services.base_url), following)
    if args.part == "steps":
        entries = context.step_entries(plan.steps[context.at.offset :])
        part = context.page("steps", entries, len(plan.steps))
    else:
        part = context.artifact_page(args.part, context.newest)
    return context.reply({"planId": plan_id}, [part], following)


class _PlanContext(PacketReader):
    plan: Plan
    brief: PlanBrief
    newest: Sequence[contexts.StoredArtifact]
    entries: Sequence[SealedEntry]
    #: Artifacts that a search found, best first. If `since` is set, the artifacts that were stored
    #: after that audit entry.
    ranked: Sequence[contexts.StoredArtifact]

    def __init__(self, args: _GetResearchContext) -> None:
        most = byte_budget(args.budget_tokens, detail=args.detail)
        offset = args.offset if args.part else 0
        super().__init__("get_research_context", {"planId": args.plan_id}, most, offset)
        #: Number of an audit entry, if the context should contain only later changes.
        self.plan_id, self.since = args.plan_id, args.since

    async def load(self, ctx: RequestContext, *, with_search: bool) -> None:
        plan_id, most = self.plan_id, self.at.most
        tail = audit.SQL["tail"](subject_id=plan_id, most=_RECENT_EVENTS)
        if self.since is not None:
            named = {"since": self.since, "most": _MAX_EVENTS_SINCE}
            tail = audit.SQL["entries"](subject_id=plan_id, **named)
        loaded, ((self.brief,), instructions, results, self.newest, self.entries) = await load_plan(
            ctx,
            PlanRequest(plan_id=plan_id, holder=ctx.actor().holder),
            load.SQL["brief"](plan_id=plan_id),
            contexts.SQL["instruction_prefixes"](plan_id=plan_id, most=most),
            contexts.SQL["result_prefixes"](plan_id=plan_id, most=most),
            contexts.SQL["newest_artifacts"](
                plan_id=plan_id, step_id=None, offset=self.at.offset, most=EXCERPT_BYTES
            ),
            tail,
        )
        self.plan, self._results = loaded.plan, results_by_step(results)
        self._instructions = {
            row.step_id: contexts.TextPrefix(row.text, row.length) for row in instructions
        }
        hits: dict[str, int] = {}
        if with_search and self.since is not None:
            hits = dict.fromkeys(sorted(self._changed(Entity.ARTIFACT)), 0)
        elif with_search and self.newest:
            hits = await matching_artifacts(ctx, plan_id, self.brief.question)
        self.ranked = []
        if hits:
            (rows,) = await ctx.read(contexts.artifacts_statement(plan_id, hits, EXCERPT_BYTES))
            self.ranked = order_by_hits(rows, hits)

    def _changed(self, entity: Entity) -> frozenset[str]:
        changes = changes_in(self.entries)
        return frozenset(change.id for change in changes if change.entity == entity)

    def frame(self) -> Body:
        plan, brief = self.plan, self.brief
        return non_empty(
            planId=plan.id,
            status=str(plan.status),
            **replies.canceled_view(plan),
            progress=plan_progress(plan).as_reply(),
            seq=plan.seq,
            revision=plan.revision,
            skill=brief.skill,
            outputMediaType=brief.output_media_type,
            createdAt=format_time(brief.created_at),
            createdBy=brief.created_by,
            copiedFrom=replies.origin_view(plan),
        )

    def parts(self, base_url: str) -> list[Part]:
        brief, newest, total = self.brief, self.newest, contexts.total_count(self.newest)
        if self.since is not None:
            newest, total = [], len(self.ranked)
        question = brief.question if self.since is None else None
        return [
            *self.text("name", self.plan.name),
            *self.text("researchQuestion", question, counts=3),
            *self.text("planFormattingNotes", brief.formatting_notes, counts=2),
            *self.text("outputFormattingInstructions", brief.formatting_instructions, counts=2),
            *self.text("reason", self.plan.fail_reason, counts=2),
            *self._review(base_url),
            self._steps(),
            self.artifacts(self.ranked, newest, total, counts=3),
            self._events(),
        ]

    def _review(self, base_url: str) -> Iterator[Part]:
        review = open_review(self.plan)
        if review is None:
            return
        frame = non_empty(
            reviewId=review.id,
            stepId=review.step_id,
            requestedAt=format_time(review.requested_at),
            requestedBy=review.requested_by,
            reviewUrl=review_url(self.plan.id, base_url),
        )
        texts = (
            *self.text("summary", review.summary, part=f"summary:{review.id}"),
            *self.text("questions", [*review.questions], part=f"questions:{review.id}"),
        )
        entry = Entry(frame=frame, texts=texts, several=True)
        yield SingleEntry(name="openReview", entry=entry, counts=3)

    def _steps(self) -> EntryList:
        """Return the steps in order.

        If space is short, the steps near the first open step are kept.
        """
        steps, is_complete = self.plan.steps, self.since is None
        if not is_complete:
            changed = self._changed(Entity.STEP)
            steps = tuple(step for step in steps if step.id in changed)
        places = (at for at, step in enumerate(steps) if step.status not in TERMINAL_STEP)
        return EntryList(
            name="steps",
            entries=tuple(self.step_entries(steps)),
            get=self.get("steps"),
            resume=lambda shown: {"offset": shown if is_complete else 0},
            focus=max(0, next(places, len(steps) - 1)),
            counts=6,
        )

    def step_entries(self, steps: Sequence[Step]) -> Iterator[Entry]:
        for step in steps:
            confidence, result = self._results.get(step.id, (None, None))
            held_by = last_activity = None
            if step.completed_at is None:
                held_by = step.held_by
                times = [at for at in (step.in_progress_since, step.last_seen_at) if at]
                last_activity = format_time(max(times, default=None))
            waits_for: list[Json] = [*step.depends_on]
            instructions = self._instructions.get(step.id)
            yield Entry(
                frame=replies.step_header(
                    step,
                    attempt=step.attempt,
                    heldBy=held_by,
                    confidence=confidence,
                    **replies.completion_view(step),
                    lastActivityAt=last_activity,
                ),
                texts=(
                    *self.text("dependsOn", waits_for or None, part=f"dependsOn:{step.id}"),
                    *self.text("failReason", step.fail_reason, part=f"failReason:{step.id}"),
                    *self.text("instructions", instructions, part=f"instructions:{step.id}"),
                    *self.text("resultSummary", result, part=f"result:{step.id}", counts=3),
                ),
                several=True,
            )

    def _events(self) -> EntryList:
        """Return the latest audit entries, newest first.

        If `since` is set, return the entries after it, oldest first.
        """
        seqs = [entry.seq for entry in self.entries]
        numbers, beyond = [0] * (len(seqs) + 1), min(seqs, default=1) - 1
        if self.since is not None:
            numbers = [self.since, *seqs]
            beyond = self.plan.seq - max(numbers)
        return EntryList(
            name="recentEvents",
            entries=tuple(map(self._event, self.entries)),
            get=FetchCall(self.tool, self.args),
            beyond=max(0, beyond),
            resume=lambda shown: {"since": numbers[shown]},
            counts=2,
        )

    def _event(self, entry: SealedEntry) -> Entry:
        frame = non_empty(
            seq=entry.seq,
            at=format_time(entry.at),
            event=entry.event,
            actor=entry.actor,
            channel=entry.channel,
            sessionId=entry.session,
        )
        details = self.text("details", entry_details(entry), part=f"event:{entry.seq}")
        return Entry(frame=frame, texts=details)
