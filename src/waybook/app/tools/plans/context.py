"""Tools that return the context of a plan or of a step. The most important parts come first."""

from collections.abc import Iterator, Sequence

from waybook.app.context.parts import (
    STEP_PARTS,
    BudgetTokens,
    PacketReader,
    byte_budget,
    results_by_step,
)
from waybook.app.queries.audit import changes_in, entry_details
from waybook.app.queries.comments import comment_view
from waybook.app.queries.search import run_search
from waybook.app.request import arguments as arg
from waybook.app.request import reply as replies
from waybook.app.request.access import load_plan
from waybook.app.request.caller import review_url
from waybook.app.request.locks.locking import LockedPlan
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, not_found
from waybook.app.request.tool import Tool
from waybook.core.changes import Entity
from waybook.json_values import Body, Json, fields_of, format_time, non_empty
from waybook.plan.draft import is_new_session, resume_session
from waybook.plan.model import CLOSED_PLAN, TERMINAL_STEP, Plan, Step
from waybook.plan.progress import open_review, progress_reply
from waybook.plan.repeat import round_of
from waybook.research.packet import Entry, EntryList, FetchCall, Part, SingleEntry
from waybook.store import audit
from waybook.store.audit import SealedEntry
from waybook.store.driver.queries import Row
from waybook.store.plans import contexts, load
from waybook.store.plans.load import PlanBrief, PlanRequest
from waybook.store.research.search import Scope

_MAX_MATCHES = 20
_EXCERPT_BYTES = 1_200
_PLAN_LISTS = ("steps", "artifacts")
_RECENT_EVENTS = 8
_MAX_EVENTS_SINCE = 200


class _GetResearchContext(arg.SessionArguments):
    plan_id: arg.PlanIdField
    since: arg.Offset | None = arg.optional("return what is new since this seq")
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
    if args.part is not None and args.part not in _PLAN_LISTS:
        ending = next_call("get_research_context", "Go back to the plan.", **context.args)
        return await context.continuation(ctx, plan_id, args.part, ending)
    await context.load(ctx, with_search=args.part is None)
    plan = context.plan
    if is_new_session(plan, ctx.session):
        async with LockedPlan(ctx, plan_id=plan_id) as locked:
            await locked.write(resume_session(locked.plan, locked.context))
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
        #: If `since` is set, the context contains only changes after the audit entry `since`.
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
                plan_id=plan_id, step_id=None, offset=self.at.offset, most=_EXCERPT_BYTES
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
            hits = await _matching_artifacts(ctx, plan_id, self.brief.question)
        self.ranked = []
        if hits:
            (rows,) = await ctx.read(contexts.artifacts_statement(plan_id, hits, _EXCERPT_BYTES))
            self.ranked = _order_by_hits(rows, hits)

    def _changed(self, entity: Entity) -> frozenset[str]:
        changes = changes_in(self.entries)
        return frozenset(change.id for change in changes if change.entity == entity)

    def frame(self) -> Body:
        plan, brief = self.plan, self.brief
        return non_empty(
            planId=plan.id,
            status=str(plan.status),
            **replies.canceled_view(plan),
            progress=progress_reply(plan),
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
        frame = non_empty(**fields_of(entry, "seq at event actor channel"), sessionId=entry.session)
        details = self.text("details", entry_details(entry), part=f"event:{entry.seq}")
        return Entry(frame=frame, texts=details)


_STEP_LISTS = ("comments", "feedback", "failures", "soFar", "earlierResults", "artifacts")


class _GetStepContext(arg.ReadArguments):
    step_id: arg.StepIdField
    budget_tokens: BudgetTokens | None = arg.optional("reply size in tokens")
    part: arg.PartField | None = arg.optional("read this part, which cut named")
    offset: arg.Offset = arg.optional("continue at this character", default=0)


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
        load.SQL["touch_step"](step_id=step_id), contexts.SQL["about_step"](step_id=step_id)
    )
    if not rows:
        raise not_found("step")
    about = rows[0]
    ctx.cache_step_plan(step_id, about.plan_id)
    context = _StepContext(args)
    if args.part is not None and args.part not in _STEP_LISTS:
        part = f"{args.part}:{step_id}" if args.part in STEP_PARTS else args.part
        ending = next_call("get_step_context", "Go back to the step.", stepId=step_id)
        return await context.continuation(ctx, about.plan_id, part, ending)
    await context.load(ctx, about, is_whole=args.part is None)
    if args.part is None:
        return context.reply(context.frame(), context.parts(), context.next_call())
    parts = [part for part in context.lists() if part.name == args.part]
    if args.part == "artifacts":
        parts = [context.artifact_page(args.part, context.newest)]
    return context.reply({"planId": about.plan_id, "stepId": step_id}, parts, context.next_call())


async def _matching_artifacts(ctx: RequestContext, plan_id: str, question: str) -> dict[str, int]:
    results, _ = await run_search(ctx, question, Scope(plan_id=plan_id))
    return {hit.subject_id: hit.part for hit in results.hits[:_MAX_MATCHES]}


def _order_by_hits(
    rows: list[contexts.StoredArtifact], hits: dict[str, int]
) -> list[contexts.StoredArtifact]:
    stored = {row.id: row for row in rows}
    return [stored[artifact_id] for artifact_id in hits if artifact_id in stored]


class _StepContext(PacketReader):
    plan: Plan
    step: Step
    question: str
    comments: Sequence[Row]
    feedback: Sequence[Row]
    failures: Sequence[Row]
    so_far: Sequence[contexts.StoredArtifact]
    newest: Sequence[contexts.StoredArtifact]
    ranked: Sequence[contexts.StoredArtifact]

    def __init__(self, args: _GetStepContext) -> None:
        most, offset = byte_budget(args.budget_tokens), args.offset if args.part else 0
        super().__init__("get_step_context", {"stepId": args.step_id}, most, offset)
        self.step_id = args.step_id

    async def load(self, ctx: RequestContext, about: Row, *, is_whole: bool) -> None:
        plan_id, step_id = about.plan_id, self.step_id
        hits: dict[str, int] = {}
        if about.has_research and is_whole:
            hits = await _matching_artifacts(ctx, plan_id, about.question)
        of_step = {"plan_id": plan_id, "step_id": step_id, **self.at._asdict()}
        of_plan = {**of_step, "step_id": None, "most": _EXCERPT_BYTES}
        loaded, ((brief,), results, *lists, ranked) = await load_plan(
            ctx,
            PlanRequest(plan_id=plan_id, texts=(step_id,), review=False),
            load.SQL["brief"](plan_id=plan_id),
            contexts.SQL["result_prefixes"](plan_id=plan_id, most=self.at.most),
            contexts.SQL["comments"](plan_id=plan_id, step_id=step_id, offset=self.at.offset),
            contexts.SQL["feedback"](**of_step),
            contexts.SQL["failures"](**of_step),
            contexts.SQL["newest_artifacts"](**of_step),
            contexts.SQL["newest_artifacts"](**of_plan),
            contexts.artifacts_statement(plan_id, hits, _EXCERPT_BYTES),
        )
        step = next((step for step in loaded.plan.steps if step.id == step_id), None)
        if step is None:
            raise not_found("step")
        self.plan, self.step, self.question = loaded.plan, step, brief.question
        self.comments, self.feedback, self.failures, self.so_far, self.newest = lists
        self.results, self.ranked = results_by_step(results), _order_by_hits(ranked, hits)

    def next_call(self) -> Json:
        plan, step = self.plan, self.step
        if plan.status in CLOSED_PLAN and step.status not in TERMINAL_STEP:
            return replies.copy_plan_call(plan)
        if step.status in TERMINAL_STEP:
            return next_call("get_next_step", "This step has ended. Claim another.", planId=plan.id)
        if step.answers_revision is not None:
            why = "The instructions were changed. Confirm that you have the new ones."
            return next_call("get_next_step", why, planId=plan.id)
        return replies.work_call(step)

    def frame(self) -> Body:
        plan, step = self.plan, self.step
        text, round_ = plan.texts[step.id], round_of(plan, step)
        return non_empty(
            planId=plan.id,
            stepId=step.id,
            stepOrder=step.order,
            stepType=str(step.type),
            status=str(step.status),
            attempt=step.attempt,
            answersRevision=step.answers_revision,
            round=replies.round_view(round_) if round_ else None,
            **replies.author_view(plan),
            touches=step.touches and step.touched,
            requiredSources=text.required_sources,
            sourcesStored=len(text.sources) if text.required_sources else None,
        )

    def parts(self) -> list[Part]:
        step, text = self.step, self.plan.texts[self.step.id]
        always_included = ("earlierResults", "artifacts")
        return [
            *self.text("instructions", text.instructions, counts=6),
            *self.text("title", step.title),
            *self.text("planName", self.plan.name, part="name"),
            *self.text("researchQuestion", self.question, counts=2),
            *self.text("resultSchema", text.result_schema, counts=2),
            *self.text("dependsOn", [*step.depends_on] or None),
            *self.text("failReason", step.fail_reason),
            *(
                part
                for part in self.lists()
                if not isinstance(part, EntryList) or part.entries or part.name in always_included
            ),
        ]

    def lists(self) -> Iterator[Part]:
        decided, failed = map(self._decided, self.feedback), map(self._failed, self.failures)
        comments = map(self._commented, self.comments)
        yield self.page("comments", comments, contexts.total_count(self.comments), counts=3)
        yield self.page("feedback", decided, contexts.total_count(self.feedback), counts=2)
        yield self.page("failures", failed, contexts.total_count(self.failures), counts=2)
        yield self.artifact_page("soFar", self.so_far, counts=3)
        if self.step.id in self.results:
            confidence, result = self.results[self.step.id]
            texts = self.text("resultSummary", result, part="result")
            own_result = Entry(frame=non_empty(confidence=confidence), texts=texts)
            yield SingleEntry(name="result", entry=own_result, counts=2)
        yield self._earlier_results()
        # In a copied plan, artifacts of this step have the id of the original step.
        own = {self.step.id, *(artifact.step_id for artifact in self.so_far)}
        others = [row for row in self.newest if row.step_id not in own]
        matter = [row for row in self.ranked if row.step_id not in own]
        total = contexts.total_count(self.newest) - contexts.total_count(self.so_far)
        yield self.artifacts(matter, others, total, counts=4)

    def _commented(self, row: Row) -> Entry:
        comment = row.comment
        frame = comment_view(comment)
        text = frame.pop("text")
        on = {"on": "plan"} if comment.step_id is None else {}
        return Entry(
            frame={**frame, **on},
            texts=self.text("text", text, part=f"comment:{comment.id}"),
        )

    def _failed(self, row: Row) -> Entry:
        reason = None if row.reason is None else contexts.TextPrefix(row.reason, row.length)
        return Entry(
            frame=non_empty(seq=row.seq, at=format_time(row.at), by=row.actor),
            texts=self.text("reason", reason, part=f"failure:{row.seq}"),
        )

    def _earlier_results(self) -> EntryList:
        """Return the results of the dependencies or, without dependencies, of all earlier steps."""
        plan, depends_on = self.plan, self.step.depends_on
        before = [step for step in plan.steps if step.order < self.step.order]
        if depends_on:
            round_ = round_of(plan, self.step)
            named = {*depends_on, *(step.id for step in (round_.latest if round_ else ()))}
            before = [step for step in plan.steps if step.id in named]
        entries: list[Entry] = []
        for step in reversed(before):
            confidence = None
            if step.id in self.results:
                confidence, result = self.results[step.id]
                texts = self.text("resultSummary", result, part=f"result:{step.id}")
            elif step.id in depends_on:
                texts = self.text("failReason", step.fail_reason, part=f"failReason:{step.id}")
            else:
                continue
            frame = replies.step_header(
                step, confidence=confidence, **replies.completion_view(step)
            )
            entries.append(Entry(frame=frame, texts=texts))
        return self.page("earlierResults", entries[self.at.offset :], len(entries), counts=5)

    def _decided(self, row: Row) -> Entry:
        """Return a reviewer's decision. Feedback that the instructions contain is left out."""
        feedback, instructions = row.feedback, self.plan.texts[self.step.id].instructions
        is_known = feedback is not None and len(feedback) == row.length and feedback in instructions
        shown = None if feedback is None or is_known else contexts.TextPrefix(feedback, row.length)
        frame = non_empty(reviewId=row.id, **fields_of(row, "decision decided_by decided_at"))
        return Entry(frame=frame, texts=self.text("feedback", shown, part=f"feedback:{row.id}"))
