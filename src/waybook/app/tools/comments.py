"""comment: write a comment on a plan, step, run or job, or resolve comments."""

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.app.queries.comments import find_subject
from waybook.app.request import arguments as arg
from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.locks.locking import Locked, LockedPlan, Proposal, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import PLAN, RUNS, Tool
from waybook.core.comments import (
    MAX_OPEN_COMMENTS,
    MAX_TEXT_LENGTH,
    Commented,
    NewComment,
    Thread,
)
from waybook.core.comments import comment as decide_comment
from waybook.core.decision_context import Scope
from waybook.core.events import (
    MAX_SUMMARY_LENGTH,
    Notification,
    NotificationKind,
    shorten,
)
from waybook.core.ids import is_id, normalize_id
from waybook.json_values import Body, Json, non_empty
from waybook.plan.draft import Draft
from waybook.run.model import RunDraft
from waybook.store.comments import SQL, Subject
from waybook.store.driver.queries import Ids


class _Comment(arg.MutatingArguments):
    subject_id: arg.Id = Field(description="step, job, plan or run")
    text: Annotated[arg.Text, Field(max_length=MAX_TEXT_LENGTH)] | None = arg.optional(
        "@name mentions a person"
    )
    resolve_ids: arg.ListOf[arg.Id] | None = arg.optional("settled comments")
    #: The published schema omits this argument, because people assign work to each other.
    assignee: SkipJsonSchema[arg.Name | None] = None


@Tool(
    title="Comment",
    description="Answer comments of people or ask them.",
    reply={"openComments": "integer"},
    profiles=PLAN | RUNS,
    scopes=frozenset({Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW}),
)
async def comment(ctx: RequestContext, args: _Comment) -> ToolReply:
    subject = await find_subject(ctx, args.subject_id)
    new = NewComment(
        text=(args.text or "").strip(),
        assignee=args.assignee,
        resolves=tuple(map(normalize_id, args.resolve_ids or ())),
    )
    before = SQL["before_comment"](
        **subject._asdict(),
        ids=Ids(filter(is_id, new.resolves)),
        body=new.text,
        assignee=new.assignee,
        most=MAX_OPEN_COMMENTS,
    )
    locked: Locked[Any] = (
        LockedPlan(ctx, before, plan_id=subject.plan_id, review=False)
        if subject.plan_id
        else LockedRun(ctx, subject.run_id or "", before)
    )

    async def decide() -> Proposal[Any]:
        ((row,),) = locked.results
        thread = Thread(row.open_count, dict(row.named or ()), frozenset(row.people or ()))
        draft: Draft | RunDraft
        if isinstance(locked, LockedPlan):
            draft, name = Draft(locked.plan, locked.context), locked.plan.name
        else:
            assert isinstance(locked, LockedRun)  # noqa: S101 - for the type checker
            draft, name = RunDraft(locked.run, locked.dag, locked.context), locked.run.name
        done = decide_comment(draft, _named(subject), new, thread)
        opened = thread.open_count - len(done.resolved) + (done.id is not None)
        body = non_empty(
            commentId=done.id,
            mentions=[{"user": name} for name in done.mentions] or None,
            resolved=[*done.resolved] or None,
        )
        body |= {"openComments": opened, "next": _following(subject)}
        notifications = _notifications(subject, name, new, done)
        return Proposal(draft.decide(None), body, notifications=notifications)

    return await update(locked, decide)


def _named(subject: Subject) -> dict[str, Json]:
    return non_empty(stepId=subject.step_id, jobId=subject.job_id)


def _following(subject: Subject) -> Json:
    why = "Go on with the work."
    if subject.step_id:
        return next_call("get_step_context", why, stepId=subject.step_id)
    if subject.job_id:
        return next_call("get_job_input", why, jobId=subject.job_id)
    if subject.plan_id:
        return next_call("get_plan_status", why, planId=subject.plan_id)
    return next_call("get_run_progress", why, runId=subject.run_id)


def _notifications(
    subject: Subject, name: str, new: NewComment, done: Commented
) -> list[Notification]:
    if done.id is None:
        return []
    is_plan = subject.plan_id is not None
    work: Body = {"planId": subject.plan_id, "planName": shorten(name)}
    if not is_plan:
        work = {"runId": subject.run_id, "runName": shorten(name)}
    written = non_empty(
        commentId=done.id,
        text=shorten(new.text, MAX_SUMMARY_LENGTH),
        assignee=new.assignee,
        mentions=[{"user": person} for person in done.mentions] or None,
    )
    kind = NotificationKind.PLAN_COMMENTED if is_plan else NotificationKind.RUN_COMMENTED
    data = {**work, **_named(subject), "comment": written}
    return [Notification(kind, subject.plan_id or subject.run_id or "", data)]
