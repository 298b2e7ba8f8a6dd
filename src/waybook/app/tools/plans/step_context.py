"""The context for an agent that works on a step. The most important parts come first."""

from collections.abc import Iterator, Sequence

from waybook.app.context.parts import (
    STEP_PARTS,
    BudgetTokens,
    PacketReader,
    byte_budget,
    results_by_step,
)
from waybook.app.queries.search import run_search
from waybook.app.request import reply as replies
from waybook.app.request.access import load_plan
from waybook.app.request.arguments import Offset, PartField, ReadArguments, StepIdField, optional
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, not_found
from waybook.app.request.tool import Tool
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.model import CLOSED_PLAN, TERMINAL_STEP, Plan, Step
from waybook.plan.repeat import round_of
from waybook.research.packet import Entry, EntryList, Part, SingleEntry
from waybook.store.driver.queries import Row
from waybook.store.plans import contexts, load
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
    if args.part is not None and args.part not in _LISTS:
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


async def matching_artifacts(ctx: RequestContext, plan_id: str, question: str) -> dict[str, int]:
    results, _ = await run_search(ctx, question, Scope(plan_id=plan_id))
    return {hit.subject_id: hit.part for hit in results.hits[:_MAX_MATCHES]}


def order_by_hits(
    rows: list[contexts.StoredArtifact], hits: dict[str, int]
) -> list[contexts.StoredArtifact]:
    stored = {row.id: row for row in rows}
    return [stored[artifact_id] for artifact_id in hits if artifact_id in stored]


class _StepContext(PacketReader):
    plan: Plan
    step: Step
    question: str
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
            hits = await matching_artifacts(ctx, plan_id, about.question)
        of_step = {"plan_id": plan_id, "step_id": step_id, **self.at._asdict()}
        of_plan = {**of_step, "step_id": None, "most": EXCERPT_BYTES}
        loaded, ((brief,), results, *lists, ranked) = await load_plan(
            ctx,
            PlanRequest(plan_id=plan_id, texts=(step_id,), review=False),
            load.SQL["brief"](plan_id=plan_id),
            contexts.SQL["result_prefixes"](plan_id=plan_id, most=self.at.most),
            contexts.SQL["feedback"](**of_step),
            contexts.SQL["failures"](**of_step),
            contexts.SQL["newest_artifacts"](**of_step),
            contexts.SQL["newest_artifacts"](**of_plan),
            contexts.artifacts_statement(plan_id, hits, EXCERPT_BYTES),
        )
        step = next((step for step in loaded.plan.steps if step.id == step_id), None)
        if step is None:
            raise not_found("step")
        self.plan, self.step, self.question = loaded.plan, step, brief.question
        self.feedback, self.failures, self.so_far, self.newest = lists
        self.results, self.ranked = results_by_step(results), order_by_hits(ranked, hits)

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
        """Return a reviewer's decision. Feedback in the instructions is not repeated."""
        feedback, instructions = row.feedback, self.plan.texts[self.step.id].instructions
        is_known = feedback is not None and len(feedback) == row.length and feedback in instructions
        shown = None if feedback is None or is_known else contexts.TextPrefix(feedback, row.length)
        frame = non_empty(
            reviewId=row.id,
            decision=row.decision,
            decidedBy=row.decided_by,
            decidedAt=format_time(row.decided_at),
        )
        return Entry(frame=frame, texts=self.text("feedback", shown, part=f"feedback:{row.id}"))
