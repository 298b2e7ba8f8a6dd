"""Tools of workers: give work back without using an attempt, and report what a worker does."""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field
from pydantic.json_schema import SkipJsonSchema

from waybook.app.request import arguments as arg
from waybook.app.request.access import plan_of_step, require_job, run_of_job
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import (
    LockedPlan,
    OpenTransaction,
    PlanProposal,
    Proposal,
    Written,
    update,
)
from waybook.app.request.reply import next_call, next_job_call
from waybook.app.request.request_context import (
    RequestContext,
    ToolReply,
    not_found,
    uuid_or_nil,
)
from waybook.app.request.tool import WORK, Tool
from waybook.core.decision_context import Scope
from waybook.core.events import WORK as WORK_EVENT
from waybook.core.events import ChangeEvent
from waybook.errors import InvalidInput
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.plan.give_back import give_back as decide_step
from waybook.plan.model import StepId
from waybook.redaction import redact
from waybook.run.failure import give_back as decide_job
from waybook.store.agents import names_statement
from waybook.store.driver.queries import Statement, first_value
from waybook.store.runs import jobs
from waybook.store.work import SQL

_WRITES: Final = frozenset({Scope.PLAN_WRITE, Scope.RUN_WRITE})
_EXPIRES_AFTER_SECONDS: Final = 120
_MAX_LINES: Final = 20
_MAX_OUTPUT_BYTES: Final = 4_096
_MAX_REASON_LENGTH: Final = 500


def _in_utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


_Time = Annotated[datetime, AfterValidator(_in_utc)]
_Reason = Annotated[arg.Text, AfterValidator(lambda text: redact(text)[:_MAX_REASON_LENGTH])]


class _GiveBack(arg.WorkerArguments):
    step_id: arg.StepIdField | None = None
    job_id: arg.JobIdField | None = None
    attempt: arg.Attempt | None = arg.optional("from get_next_step or get_next_job")
    reason: _Reason = Field(description="why")
    resumes_at: _Time | None = arg.optional("when you can work again")
    #: Name to show, such as `codex`.
    agent: SkipJsonSchema[arg.Name | None] = None

    def details(self) -> dict[str, Json]:
        return non_empty(
            reason=self.reason, resumesAt=format_time(self.resumes_at), agent=self.agent
        )

    def pause(self, ctx: RequestContext, now: datetime, **work: str) -> list[Statement]:
        """Return the statement that shows when the agent resumes, if it says so."""
        if self.resumes_at is None or self.resumes_at <= now:
            return []
        actor = ctx.actor()
        return [
            SQL["sleep_until"](
                name=actor.user,
                session=actor.session or "",
                agent=self.agent or actor.session or actor.user,
                until=self.resumes_at,
                reason=self.reason,
                plan_id=work.get("plan_id"),
                run_id=work.get("run_id"),
            )
        ]


@Tool(
    title="Give work back",
    description=(
        "Give your step or job back, because you cannot work now. It uses no attempt; another "
        "agent can claim it at once."
    ),
    reply={"status": "string"},
    profiles=WORK,
    scopes=_WRITES,
)
async def give_back(ctx: RequestContext, args: _GiveBack) -> ToolReply:
    if (args.step_id is None) == (args.job_id is None):
        raise InvalidInput("give either stepId or jobId", argument="stepId")
    if args.job_id is not None:
        return await _give_job_back(ctx, args, args.job_id)
    step_id = args.step_id or ""
    plan_id = await plan_of_step(ctx, step_id)
    locked = LockedPlan(ctx, plan_id=plan_id)

    async def decide() -> PlanProposal:
        decision = decide_step(
            locked.plan,
            StepId(step_id),
            locked.context,
            attempt=args.attempt,
            details=args.details(),
        )
        body: Body = {
            "status": "given_back",
            "planId": plan_id,
            "stepId": step_id,
            "attempt": decision.reply.attempt,
            "next": next_call("get_next_step", "Claim a step when you can work.", planId=plan_id),
        }
        return Proposal(decision, body, more=args.pause(ctx, locked.now, plan_id=plan_id))

    return await update(locked, decide)


async def _give_job_back(ctx: RequestContext, args: _GiveBack, job_id: str) -> ToolReply:
    run_id = await run_of_job(ctx, job_id)
    locked = LockedRun(ctx, run_id, jobs.SQL["load_job"](job_id=job_id))

    async def decide() -> RunProposal:
        job = require_job(locked.results[0])
        decision = decide_job(
            locked.run,
            locked.dag,
            job,
            attempt=args.attempt,
            details=args.details(),
            context=locked.context,
        )
        body: Body = {
            "status": "given_back",
            "runId": run_id,
            "jobId": job_id,
            "attempt": decision.reply.attempt + 1,
            "next": next_job_call(run_id, "Claim a job when you can work."),
        }
        more = args.pause(ctx, locked.now, run_id=run_id)
        return Proposal(decision, body, more=more, jobs=(job,))

    return await update(locked, decide)


class _ReportWorker(arg.WorkerArguments):
    agent: arg.Name = Field(description="name of the agent, such as codex")
    state: Literal["working", "sleeping", "parked", "draining", "ended"] = Field(
        description="what the worker does"
    )
    until: _Time | None = arg.optional("end of the sleep")
    # The published schema omits what only programs that start agents pass.
    host: SkipJsonSchema[arg.Name | None] = None
    reason: SkipJsonSchema[_Reason | None] = None
    plan_id: SkipJsonSchema[arg.PlanIdField | None] = None
    run_id: SkipJsonSchema[arg.RunIdField | None] = None
    step_id: SkipJsonSchema[arg.StepIdField | None] = None
    job_id: SkipJsonSchema[arg.JobIdField | None] = None
    lines: arg.ListOf[arg.Text] | None = arg.optional("last output")
    reservation_id: arg.Id | None = arg.optional("to renew")

    def named(self) -> dict[str, str]:
        ids = {"plan": self.plan_id, "run": self.run_id, "step": self.step_id, "job": self.job_id}
        return {kind: row_id for kind, row_id in ids.items() if row_id is not None}


def last_output(lines: list[str]) -> str | None:
    """Return the end of an output within the limits, without secrets and control characters."""
    shown = redact("\n".join(line for text in lines for line in text.splitlines()))
    printable = ("".join(c if c.isprintable() else " " for c in line) for line in shown.split("\n"))
    text = "\n".join([*printable][-_MAX_LINES:])
    return text.encode()[-_MAX_OUTPUT_BYTES:].decode(errors="ignore") or None


@Tool(
    title="Report a worker",
    description="Show what a worker does, every 5 to 30 seconds.",
    reply={"status": "string"},
    profiles=WORK,
    logged=False,
    scopes=_WRITES,
)
async def report_worker(ctx: RequestContext, args: _ReportWorker) -> ToolReply:
    if args.session_id is None:
        raise InvalidInput("give the sessionId of the worker", argument="sessionId")
    actor = ctx.actor()
    key = {"name": actor.user, "session": actor.session or ""}
    statements = [SQL["forget_workers"](**key)]
    if args.state != "ended":
        statements = [
            SQL["report"](
                **key,
                agent=args.agent,
                host=args.host,
                state=args.state,
                until=args.until,
                reason=args.reason,
                plan_id=args.plan_id,
                run_id=args.run_id,
                step_id=args.step_id,
                job_id=args.job_id,
                lines=last_output(args.lines or []),
                seconds=_EXPIRES_AFTER_SECONDS,
            )
        ]
    if args.reservation_id is not None:
        statements.append(SQL["renew_reservation"](id=uuid_or_nil(args.reservation_id)))
    opened = OpenTransaction(ctx, names_statement(args.named().values()), *statements)

    async def decide() -> Proposal[Written]:
        named, *written = opened.results
        renewed = None
        found = {(row.kind, row.id) for row in named}
        if unknown := [
            kind for kind, row_id in args.named().items() if (kind, row_id) not in found
        ]:
            raise not_found(unknown[0])
        if args.reservation_id is not None:
            renewed = "open" if written[-1] else "over"
        expires = first_value(written[0]) if args.state != "ended" else None
        following = next_call("report_worker", "Report again within 30 seconds.")
        body = non_empty(
            status="ok", expiresAt=format_time(expires), reservation=renewed, next=following
        )
        worker_id = sha256("\n".join(key.values()).encode()).hexdigest()[:12]
        event = ChangeEvent(WORK_EVENT, worker_id, int(opened.now.timestamp()))
        return Proposal(Written([], event=event), body)

    return await update(opened, decide)
