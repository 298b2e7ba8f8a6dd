"""comment: write a comment on a plan, step, run or job, or resolve comments."""

from typing import Annotated, Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.app.queries.comments import find_subject
from waybook.app.request import arguments as arg
from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.locks.locking import LockedPlan, Proposal, update
from waybook.app.request.reply import next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import PLAN, RUNS, Tool
from waybook.core.comments import (
    MAX_OPEN_COMMENTS,
    MAX_TEXT_LENGTH,
    NewComment,
    Thread,
    mentions,
)
from waybook.core.comments import comment as decide_comment
from waybook.core.decision_context import Scope
from waybook.core.events import MAX_SUMMARY_LENGTH, Notification, NotificationKind, shorten
from waybook.core.ids import is_id, normalize_id
from waybook.json_values import Json, non_empty
from waybook.plan.draft import Draft
from waybook.run.model import RunDraft
from waybook.store.comments import SQL
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
    description="Answer or ask people.",
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
    about = non_empty(stepId=subject.step_id, jobId=subject.job_id)
    ids = {**about, **non_empty(planId=subject.plan_id, runId=subject.run_id)}
    before = SQL["before_comment"](
        **subject._asdict(),
        ids=Ids(filter(is_id, new.resolves)),
        body=new.text,
        assignee=new.assignee,
        most=MAX_OPEN_COMMENTS,
    )
    locked = (
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
            draft, name = RunDraft(locked.run, locked.dag, locked.context), locked.run.name
        comment_id, resolved = decide_comment(draft, about, new, thread)
        people = thread.people | {draft.moment.actor.user}
        named: Json = [{"user": person} for person in mentions(new.text, people)] or None
        body = non_empty(commentId=comment_id, mentions=named, resolved=[*resolved] or None)
        body["openComments"] = thread.open_count - len(resolved) + (comment_id is not None)
        # The other tools for this work are not in every profile that has this one.
        why = "Go on with your work. Comment again only to answer, or to resolve a comment."
        body["next"] = next_call("comment", why, subjectId=args.subject_id)
        if comment_id is None:
            return Proposal(draft.decide(None), body)
        text = shorten(new.text, MAX_SUMMARY_LENGTH)
        written = non_empty(commentId=comment_id, text=text, assignee=new.assignee, mentions=named)
        kind, name_key = NotificationKind.RUN_COMMENTED, "runName"
        if subject.plan_id:
            kind, name_key = NotificationKind.PLAN_COMMENTED, "planName"
        data = {**ids, name_key: shorten(name), "comment": written}
        notification = Notification(kind, subject.plan_id or subject.run_id or "", data)
        return Proposal(draft.decide(None), body, notifications=[notification])

    return await update(locked, decide)
