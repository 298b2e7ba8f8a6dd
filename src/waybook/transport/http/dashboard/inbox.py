"""Inbox page: a list of what waits for a person, and one open item with its evidence and form.

Overdue reviews come first. A second list has decided reviews. The forms work with and without
JavaScript; after a decision, the next item opens.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

from starlette.responses import Response

from waybook.app.queries.comments import CommentRow, comments_for, written_by
from waybook.app.queries.inbox import (
    FailedStage,
    PendingFeedback,
    ReviewEvidence,
    ReviewRecord,
    Row,
    list_decided_reviews,
    list_failed_stages,
    list_reviews,
    read_evidence,
    read_pending_stage,
    read_review,
    read_stage_documents,
    runs_awaiting_feedback,
)
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.work_list import RunSummary
from waybook.app.queries.workers import PausedCap, list_paused_caps
from waybook.app.request.caller import Answer
from waybook.app.request.request_context import RequestContext
from waybook.core.ids import IdKind
from waybook.errors import WaybookError
from waybook.run.model import CompiledDag, Run
from waybook.transport.http.dashboard.page import (
    PageRequest,
    SubmittedForm,
    error_message,
    redirect,
    require_id,
)
from waybook.transport.http.dashboard.texts import (
    MAX_LENGTH,
    TOO_LONG,
    compare_texts,
    markdown_gist,
    result_text,
    to_rich_text,
)
from waybook.transport.jsonrpc import code_of

DECISION_TEXT = {
    "approve": "approved",
    "modify": "requested changes",
    "skip": "skipped the step",
    "reject": "rejected; the plan failed",
}
PREVIEW_LENGTH: Final = 240

#: Values that the templates show on the card of a review or of a stage that awaits feedback.
Card: TypeAlias = dict[str, Any]
CallTool: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[Answer]]


def typed_input(feedback: str = "", error: str = "", *, confirming: bool = False) -> Card:
    """Return submitted form input, with an error message if it was refused."""
    return {"feedback": feedback, "error": error, "confirming": confirming}


def outcome_of(
    by: str | None,
    text: str,
    at: datetime | None = None,
    feedback: str | None = None,
    **more: object,
) -> Card:
    """Return the template values of a recorded decision or feedback."""
    known = {"by": by or "another user", "text": text, "at": at, "feedback": feedback}
    return {**known, "too_late": False, "status": None, **more}


def decision_card(
    review: ReviewRecord,
    evidence: ReviewEvidence | None = None,
    typed: Card | None = None,
    *,
    too_late: bool = False,
) -> Card:
    """Return the card of a review, with the decision if a person has decided."""
    evidence = evidence or ReviewEvidence()
    outcome, changes, previous = None, None, evidence.previous
    result, requested_at = review.result_summary, review.requested_at
    if review.decision is not None:
        text, status = DECISION_TEXT[review.decision], review.plan_shown
        decided = review.decided_by, text, review.decided_at, review.feedback
        outcome = outcome_of(*decided, too_late=too_late, status=status)
    elif previous is not None and previous.result_length and result is not None:
        changes = TOO_LONG
        if previous.result_summary is not None:
            changes = compare_texts(result_text(previous.result_summary), result_text(result))
    as_json = "" if isinstance(result, str) else result_text(result)
    due_at = requested_at + evidence.decide_within if evidence.decide_within else None
    return {
        "kind": "review",
        "key": f"review-{review.id}",
        "review": review,
        "summary": to_rich_text(review.summary),
        "result": to_rich_text(result),
        "instructions": to_rich_text(review.instructions),
        "result_json": as_json if len(as_json) <= MAX_LENGTH else None,
        "evidence": evidence,
        "changes": changes,
        "now": review.now,
        "due_at": due_at,
        "is_overdue": due_at is not None and review.now > due_at,
        "typed": typed or typed_input(),
        "outcome": outcome,
    }


def stage_card(
    dag: CompiledDag,
    run: Run | RunSummary,
    slug: str,
    since: datetime,
    documents: Sequence[Row] = (),
    **more: object,
) -> Card:
    """Return the card of a completed stage that awaits feedback.

    It shows the first lines of `documents`. `models` in `more` has the models for the next stage;
    without it, the card has no field for them, and the models stay the same.
    """
    beginnings = []
    for document in documents:
        text = to_rich_text(document.beginning)
        plain = " ".join(text.html.striptags().split()) if text else ""
        cut = len(plain) > PREVIEW_LENGTH
        beginnings.append((document, f"{plain[:PREVIEW_LENGTH]}…" if cut else plain))
    return {
        "kind": "run",
        "key": f"run-{run.id}",
        "run_id": run.id,
        "run_name": run.name,
        "stage_slug": slug,
        "stage_name": dag.stage_name(slug),
        "since": since,
        "following": [dag.stage_name(after) for after in dag.dag.after(slug)],
        "documents": beginnings,
        "document_count": max((item.total for item in documents), default=0),
        "models": "",
        "typed": typed_input(),
        "outcome": None,
        **more,
    }


MAX_CARDS: Final = 20
#: Values of the decision buttons. `wait` is the button that cancels a rejection.
DECISIONS: Final = frozenset({*DECISION_TEXT, "wait"})
_ALREADY_DECIDED: Final = frozenset({"NOT_AWAITING_REVIEW", "PLAN_TERMINAL"})
#: What a form without the required feedback says, by decision.
_FEEDBACK_REQUIRED: Final = {
    "modify": "describe the requested changes; the agent will read them",
    "": "enter your feedback on the stage; it is passed on to the next stage",
}

Source: TypeAlias = ReviewRecord | PendingFeedback | FailedStage | PausedCap | CommentRow


class InboxItem(NamedTuple):
    """An entry of the list."""

    #: Identifies the entry in the address of the page.
    key: str
    title: str
    text: str
    since: datetime
    source: Source
    is_overdue: bool = False

    @property
    def status(self) -> str:
        if isinstance(self.source, ReviewRecord):
            return _STATUS_OF_DECISION.get(self.source.decision or "", "awaiting_review")
        return "failed" if isinstance(self.source, FailedStage) else "awaiting_feedback"


_STATUS_OF_DECISION: Final = {
    "approve": "completed",
    "modify": "in_progress",
    "skip": "skipped",
    "reject": "failed",
}


def step_name(review: ReviewRecord) -> str:
    return f"{review.plan_name}, step {review.step_order}"


def _review_item(ctx: RequestContext, review: ReviewRecord) -> InboxItem:
    within, name = ctx.services.review_reminder, step_name(review)
    is_overdue = within is not None and review.now > review.requested_at + within
    text = markdown_gist(review.summary[:PREVIEW_LENGTH])
    title, text = (review.title, f"{name}. {text}") if review.title else (name, text)
    since = review.decided_at or review.requested_at
    return InboxItem(f"review-{review.id}", title, text, since, review, is_overdue)


def _comment_item(row: Row) -> InboxItem:
    comment, part = row.comment, f", step {row.step_order}" if row.step_order else ""
    part = part or (f", {row.title}" if row.title else "")
    title = f"{written_by(comment)} commented"
    text = f"{row.work_name}{part}. {comment.body[:PREVIEW_LENGTH]}"
    return InboxItem(f"comment-{comment.id}", title, text, comment.created_at, comment)


async def _waiting_items(ctx: RequestContext, person: str | None = None) -> list[InboxItem]:
    """Return what waits for a person: overdue reviews first, then the longest waiting.

    If `person` is given, return only what is assigned to this person, and comments.
    """
    reviews = await list_reviews(ctx, limit=MAX_CARDS, assignee=person)
    items = [_review_item(ctx, review) for review in reviews]
    for stage in await runs_awaiting_feedback(ctx, most=MAX_CARDS, assignee=person):
        title = f"{stage.stage_name} is completed"
        text = f"{stage.run.name}. Your feedback starts the next stage."
        items.append(InboxItem(f"run-{stage.run.id}", title, text, stage.since, stage))
    comments = await comments_for(ctx, person, most=MAX_CARDS) if person else ()
    items += [_comment_item(row) for row in comments]
    for failed in await list_failed_stages(ctx, most=MAX_CARDS) if person is None else ():
        key = f"failed-{failed.run_id}-{failed.failure.stage}"
        text = f"{failed.run_name}. {failed.failure.reason[:PREVIEW_LENGTH]}"
        title = f"{failed.failure.stage} failed"
        items.append(InboxItem(key, title, text, failed.since, failed))
    if person is None:
        items += await _cap_items(ctx)
    items.sort(key=lambda item: (not item.is_overdue, item.since))
    return items[:MAX_CARDS]


async def inbox_page(
    page: PageRequest, opened: Card | None = None, status: int = HTTPStatus.OK
) -> Response:
    """Show the list and one item: the card of a submitted form, or the item in the address."""
    ctx = await page.context()
    is_decided, is_mine = (page.query("show") == name for name in ("decided", "mine"))
    if is_decided:
        reviews = await list_decided_reviews(ctx, limit=MAX_CARDS)
        items = [_review_item(ctx, review) for review in reviews]
    else:
        items = await _waiting_items(ctx, ctx.caller.user if is_mine else None)
    keys = [item.key for item in items]
    chosen = opened["key"] if opened else page.query("item") or ""
    card = opened or await _find_card(ctx, items, chosen)
    at = keys.index(card["key"]) if card and card["key"] in keys else -1
    after = keys[at + 1 : at + 2] or keys[: max(at, 0)]
    return await page.render(
        "inbox",
        status=status,
        is_decided=is_decided,
        is_mine=is_mine,
        thread_of=card.get("thread_of") if card else None,
        items=items,
        card=card,
        position=at,
        # The item that opens after a decision.
        following=after[0] if after else None,
        toast=await _toast(page, page.query("done")),
    )


async def _find_card(ctx: RequestContext, items: Sequence[InboxItem], chosen: str) -> Card | None:
    """Return the chosen item. A review may be decided already. By default, return the first."""
    known = {item.key: item for item in items}
    kind, _, review_id = chosen.partition("-")
    if chosen not in known and kind == "review":
        with suppress(WaybookError):
            return await read_review_card(ctx, review_id)
    item = known.get(chosen) or next(iter(items), None)
    return await _open_card(ctx, item) if item else None


async def read_review_card(
    ctx: RequestContext, review_id: str, typed: Card | None = None, *, too_late: bool = False
) -> Card:
    review = await read_review(ctx, require_id(IdKind.REVIEW, review_id))
    evidence = await read_evidence(ctx, [review.id])
    return decision_card(review, evidence[review.id], typed, too_late=too_late)


async def read_stage_card(
    ctx: RequestContext, run_id: str, slug: str, typed: Card, *, too_late: bool, **more: object
) -> Card:
    """Return the card of a stage, with its feedback if it has some."""
    pending = await read_pending_stage(ctx, run_id, slug)
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    (documents,) = await read_stage_documents(ctx, [pending])
    stage, since, outcome = detail.run.stages.get(slug), pending.since, None
    if stage is not None:
        since = stage.completed_at or since
        given = stage.feedback_by, "gave feedback", stage.feedback_at, stage.feedback
        outcome = outcome_of(*given, too_late=too_late) if stage.feedback is not None else None
    more |= {"is_canceled": detail.run.canceled_at is not None, "now": detail.now}
    more |= {"typed": typed, "outcome": outcome}
    return stage_card(pending.run.compiled_dag, detail.run, slug, since, documents, **more)


async def _open_card(ctx: RequestContext, item: InboxItem) -> Card:
    source, card = item.source, {"key": item.key, "item": item, "outcome": None}
    if isinstance(source, ReviewRecord):
        return await read_review_card(ctx, source.id)
    if isinstance(source, PendingFeedback):
        (documents,) = await read_stage_documents(ctx, [source])
        run = source.run
        return stage_card(run.compiled_dag, run, source.stage_slug, source.since, documents)
    if isinstance(source, PausedCap):
        # One click doubles the limit.
        limit = _number(max(1, 2 * source.cap.shown(source.cap.most)))
        return {**card, "kind": "cap", "limit": limit, "error": ""}
    if isinstance(source, CommentRow):
        return {**card, "kind": "comment", "thread_of": source.subject}
    return {**card, "kind": "failure"}


_UNITS: Final = {
    "costUsd": "dollars",
    "seconds": "seconds of work",
    "failures": "failures in a row",
}


async def _cap_items(ctx: RequestContext) -> list[InboxItem]:
    items = []
    for paused in await list_paused_caps(ctx, most=MAX_CARDS):
        cap = paused.cap
        unit = _UNITS.get(cap.unit, cap.unit)
        whose = paused.name or (f"agent {cap.subject}" if cap.subject else "all agents")
        day = " today" if cap.period == "day" else ""
        used, most = (_number(cap.shown(amount)) for amount in (cap.spent, cap.most))
        text = f"{whose}: {used} of {most} {unit} are used{day}."
        if (since := cap.paused_at) is not None:
            title = f"Cap on {unit} reached"
            items.append(InboxItem(f"cap-{cap.id}", title, text, since, paused))
    return items


def _number(amount: float) -> str:
    return f"{amount:,.2f}".removesuffix(".00")


async def submit_cap(page: PageRequest) -> Response:
    """Raise the limit of a cap, or end the work."""
    form = await page.form()
    cap_id, limit = form.text("capId"), form.text("limit").replace(",", "").strip()
    change: dict[str, object] = {"end": True} if form.text("end") else {"limit": limit}
    answer = await page.call_tool("decide_cap", {"capId": cap_id, **change})
    if not answer.is_error:
        return redirect(form.return_path)
    ctx = await page.context()
    item = next((item for item in await _cap_items(ctx) if item.key == f"cap-{cap_id}"), None)
    if item is None:
        return redirect("/inbox")
    card = await _open_card(ctx, item)
    card |= {"limit": limit, "error": error_message(answer)}
    return await inbox_page(page, card, HTTPStatus.OK if page.is_partial else 400)


_DONE: Final = {
    "cap": "Your decision was saved.",
    "feedback": "Feedback sent. The next stage has started.",
    "retry": "Failed jobs were reset and can be claimed again.",
}


async def _toast(page: PageRequest, done: str | None) -> str | None:
    """Return what the last decision did. `done` is a word, or the id of the decided review."""
    if done is None or done in _DONE:
        return _DONE.get(done or "")
    with suppress(WaybookError):
        review = await read_reviewed(page, done)
        if review.decision:
            return f"{review.decided_by} {DECISION_TEXT[review.decision]}: {step_name(review)}."
    return None


def _is_from_inbox(form: SubmittedForm) -> bool:
    return form.return_path.partition("?")[0] == "/inbox"


async def _respond(page: PageRequest, form: SubmittedForm, status: int, card: Card) -> Response:
    """Show the card after its form was submitted.

    A reply to the page's script always has status 200, because the script ignores other statuses.
    """
    code = HTTPStatus.OK if page.is_partial else status
    if _is_from_inbox(form):
        return await inbox_page(page, card, code)
    return await page.render("decide", status=code, back=form.return_path, card=card)


async def send_decision(
    call: CallTool, arguments: Mapping[str, object], feedback: str
) -> tuple[Card, int]:
    """Send the decision of a review, or feedback on a stage.

    Return the submitted input, with an error if it was refused, and the status of the response: 409
    if another person was faster.
    """
    decision = str(arguments.get("decision", ""))
    if not feedback.strip():
        if error := _FEEDBACK_REQUIRED.get(decision):
            return typed_input(feedback, error), HTTPStatus.BAD_REQUEST
    else:
        arguments = {**arguments, "feedback": feedback}
    tool = "submit_user_decision" if decision else "submit_stage_feedback"
    answer = await call(tool, arguments)
    if not answer.is_error:
        return typed_input(), HTTPStatus.OK
    is_late = code_of(answer) in _ALREADY_DECIDED
    status = HTTPStatus.CONFLICT if is_late else HTTPStatus.BAD_REQUEST
    return typed_input(feedback, error_message(answer)), status


async def submit_decision(page: PageRequest) -> Response:
    """Submit a review decision. A rejection must be confirmed first."""
    form = await page.form()
    decision, feedback = form.text("decision"), form.text("feedback")
    typed, status = typed_input(feedback), int(HTTPStatus.OK)
    if decision not in DECISIONS:
        typed["error"], status = "choose one of the buttons", HTTPStatus.BAD_REQUEST
    elif decision == "reject" and not form.text("confirmed"):
        typed["confirming"] = True
    elif decision != "wait":
        named = {"planId": form.text("planId"), "reviewId": form.text("reviewId")}
        arguments = {**named, "decision": decision}
        typed, status = await send_decision(page.call_tool, arguments, feedback)
        if status == HTTPStatus.OK and (not page.is_partial or _is_from_inbox(form)):
            return redirect(form.return_path)
    late = status == HTTPStatus.CONFLICT
    ctx = await page.context()
    card = await read_review_card(ctx, form.text("reviewId"), typed, too_late=late)
    return await _respond(page, form, status, card)


async def read_reviewed(page: PageRequest, review_id: str) -> ReviewRecord:
    return await read_review(await page.context(), require_id(IdKind.REVIEW, review_id))


async def submit_feedback(page: PageRequest) -> Response:
    form = await page.form()
    run_id, slug = require_id(IdKind.RUN, form.text("runId")), form.text("stageSlug")
    ctx, models = await page.context(), form.text("models")
    await read_pending_stage(ctx, run_id, slug)
    chosen = [name.strip() for name in models.split(",") if name.strip()]
    arguments = {"runId": run_id, "stageSlug": slug, "models": chosen or None}
    typed, status = await send_decision(page.call_tool, arguments, form.text("feedback"))
    if status == HTTPStatus.OK and (not page.is_partial or _is_from_inbox(form)):
        return redirect(form.return_path)
    late = status == HTTPStatus.CONFLICT
    card = await read_stage_card(ctx, run_id, slug, typed, too_late=late, models=models)
    return await _respond(page, form, status, card)
