"""Plans, runs, reviews, agents and workflows as JSON, for the terminal and for programs."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from waybook.app.queries.agent_names import agent_name
from waybook.app.queries.agents import facts_of_agent, list_agents
from waybook.app.queries.audit import RUN, event_label
from waybook.app.queries.comments import comment_view, find_subject, thread_statements
from waybook.app.queries.inbox import Row, list_failed_stages, list_reviews, runs_awaiting_feedback
from waybook.app.queries.plans.plan import HistoryEntry, PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.runs.workflows import list_workflows, workflow_view
from waybook.app.queries.timeline import Axis, spans_of, time_spent
from waybook.app.queries.work_list import (
    OPEN,
    ListOrder,
    PlanFilter,
    PlanSummary,
    RunFilter,
    RunSummary,
    list_runs,
    plan_summaries,
    resolve_plan,
    resolve_run,
)
from waybook.app.queries.workers import worker_views, workers_view
from waybook.app.request.caller import plan_url, require_scope, review_url, run_url
from waybook.app.request.reply import author_view, budget_view, review_view
from waybook.app.request.request_context import RequestContext
from waybook.core.actions import ACTIONS, Facts, Kind, offered
from waybook.core.decision_context import Scope
from waybook.core.shown import Shown, word_of
from waybook.core.usage import format_cost
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import Body, Json, fields_of, format_time, non_empty
from waybook.plan.model import PlanState
from waybook.plan.ordering import steps_blocked_by_touches
from waybook.plan.progress import Progress, progress_json

ALL: Final = "all"
MAX_LISTED: Final = 1_000
#: Number of equal parts into which the time axis of a plan is divided.
TICKS: Final = 1_000

_STATES: Final = (
    *(Shown.NEEDS_YOU, Shown.RUNNING, Shown.STALLED, Shown.FAILED),
    *(Shown.TODO, Shown.CANCELED, Shown.DONE),
)


class ViewQuery(NamedTuple):
    #: Id or part of a name. Without it, the only open plan or run is meant.
    text: str | None = None
    state: str | None = None
    limit: int = 100


def _state_of(query: ViewQuery) -> Shown | None:
    """Return the requested state, or None if the request is for open or for all work."""
    wanted = (query.state or OPEN).replace("_", " ").replace("-", " ").lower()
    if wanted in {OPEN, ALL}:
        return None
    for state in _STATES:
        if wanted in {word_of(state).lower(), state.replace("_", " ")}:
            return state
    known = ", ".join((OPEN, *(word_of(state).lower() for state in _STATES), ALL))
    raise InvalidInput(f"there is no state “{wanted}”; the states are {known}")


async def _plans(ctx: RequestContext, query: ViewQuery) -> Body:
    state = _state_of(query)
    wanted = PlanFilter(
        order=ListOrder.ACTIVITY, all=query.state == ALL, state=state, text=query.text or ""
    )
    plans = (await plan_summaries(ctx, wanted, limit=query.limit)).plans
    return _listed("plans", [_plan_row(plan, ctx.services.base_url) for plan in plans], plans)


def _listed(name: str, rows: list[Json], items: object) -> Body:
    now: datetime | None = next((item.now for item in items), None)  # type: ignore[attr-defined]
    return {name: rows, "now": format_time(now)}


def _plan_row(plan: PlanSummary, base_url: str) -> Body:
    waits, progress = plan.state is PlanState.AWAITING_REVIEW, plan.progress
    return {
        "planId": plan.id,
        "name": plan.name,
        "status": str(plan.state),
        "state": str(plan.shown),
        "progress": progress.percent,
        "counts": _counts(progress),
        "actions": [*offered(plan.facts)],
        "url": plan_url(plan.id, base_url),
        **non_empty(reviewUrl=review_url(plan.id, base_url) if waits else None),
        "createdAt": format_time(plan.created_at),
        "createdBy": plan.created_by,
        "lastActivityAt": format_time(plan.updated_at),
    }


def _counts(progress: Progress) -> Body:
    numbers = {str(status): number for status, number in progress.counts.items()}
    return {"done": progress.done, "total": progress.total, **numbers}


async def _runs(ctx: RequestContext, query: ViewQuery) -> Body:
    state = _state_of(query)
    filtered = None if query.state == ALL else str(state or OPEN)
    wanted = RunFilter(state=filtered, text=query.text or "")
    runs, _ = await list_runs(ctx, wanted, query.limit)
    return _listed("runs", [_run_row(run, ctx.services.base_url) for run in runs], runs)


def _run_row(run: RunSummary, base_url: str) -> Body:
    return {
        "runId": run.id,
        "name": run.name,
        "dagSlug": run.compiled_dag.dag.slug,
        "version": run.compiled_dag.version,
        "status": str(run.state),
        "state": str(run.shown),
        "completedStages": run.stages_done,
        "totalStages": run.stages_total,
        "progress": progress_json(run.steps_done, run.steps_total),
        "currentStage": run.current.slug if run.current else None,
        "awaitingFeedback": run.awaiting.slug if run.awaiting else None,
        "actions": [*offered(run.facts)],
        "runUrl": run_url(run.id, base_url),
        "stages": [
            {
                "stageSlug": stage.slug,
                "completedSteps": stage.closed,
                "totalSteps": run.steps_of(stage.slug),
                "failedSteps": stage.failed,
            }
            for stage in run.stages
        ],
        "createdAt": format_time(run.created_at),
        "createdBy": run.created_by,
        "lastActivityAt": format_time(run.updated_at),
    }


async def _reviews(ctx: RequestContext, query: ViewQuery) -> Body:
    """Return the open reviews, of one plan or of all, and the stages that wait for a person."""
    plan_id = (await resolve_plan(ctx, query.text)).id if query.text else None
    records = await list_reviews(ctx, plan_id, limit=query.limit)
    reviews: list[Json] = [
        non_empty(
            kind="review",
            name=record.plan_name,
            reviewId=record.id,
            title=record.title or record.instructions.strip().split("\n", 1)[0],
            since=format_time(record.requested_at),
            actions=[*offered(Facts(Kind.REVIEW, Shown.NEEDS_YOU))],
            **fields_of(record, "plan_id step_id step_order attempt summary questions"),
            **fields_of(record, "result_summary requested_by assignee"),
            reviewUrl=review_url(record.plan_id, ctx.services.base_url),
        )
        for record in records
    ]
    if plan_id is None:
        reviews += [
            non_empty(
                kind="feedback",
                runId=pending.run.id,
                name=pending.run.name,
                title=pending.stage_slug,
                since=format_time(pending.since),
                actions=[*offered(pending.run.facts)],
                runUrl=run_url(pending.run.id, ctx.services.base_url),
                assignee=pending.assignee,
            )
            for pending in await runs_awaiting_feedback(ctx, most=query.limit)
        ]
        reviews += [
            {
                "kind": "failure",
                "runId": failed.run_id,
                "name": failed.run_name,
                "title": failed.failure.stage,
                "since": format_time(failed.since),
                "actions": [*offered(Facts(Kind.RUN, Shown.FAILED, failed=1))],
                "runUrl": run_url(failed.run_id, ctx.services.base_url),
            }
            for failed in await list_failed_stages(ctx, most=query.limit)
        ]
    return {
        "reviews": reviews,
        "now": format_time(await ctx.services.database.read_now(ctx.caller.org_id)),
    }


async def _agents(ctx: RequestContext, query: ViewQuery) -> Body:
    rows, held, *_ = await list_agents(ctx, limit=query.limit)
    wanted = (query.text or "").casefold()
    listed: list[Json] = [
        {
            **fields_of(row, "name session clients last_seen_at completed failed"),
            "cost": format_cost(row.usage.cost_micros),
            "actions": [*offered(facts_of_agent(ctx, row, held[row.key]))],
            "holds": [
                fields_of(item, "kind work_id work_name title since") for item in held[row.key]
            ],
        }
        for row in rows
        if wanted in f"{row.name} {row.session}".casefold()
    ]
    return _listed("agents", listed, rows)


async def _comments(ctx: RequestContext, query: ViewQuery) -> Body:
    """Return the newest comments on the plan, step, run or job with the id in `q`."""
    subject = await find_subject(ctx, query.text or "")
    open_only = query.state != ALL
    rows, _ = await ctx.read(*thread_statements(subject, only_open=open_only))
    return {"subjectId": subject.id, "comments": [comment_view(row) for row in rows]}


async def _workflows(ctx: RequestContext, query: ViewQuery) -> Body:
    wanted = (query.text or "").casefold()
    workflows = [workflow.compiled_dag for workflow in await list_workflows(ctx)]
    return {
        "workflows": [
            {**workflow_view(dag), "actions": [*offered(Facts(Kind.WORKFLOW))]}
            for dag in workflows[: query.limit]
            if wanted in f"{dag.dag.slug} {dag.dag.name}".casefold()
        ]
    }


async def _plan(ctx: RequestContext, query: ViewQuery) -> Body:
    plan_id = (await resolve_plan(ctx, query.text)).id
    detail = await read_plan_detail(ctx, plan_id, PlanInclude.BOARD)
    return plan_view(detail, ctx.services.base_url)


def _event(last: HistoryEntry | Row, what: str) -> Body:
    who = agent_name(last.actor, last.session, last.channel)
    return {"at": format_time(last.at), "text": f"{who} {what}"}


def plan_view(detail: PlanDetail, base_url: str = "") -> Body:
    plan, progress = detail.plan, detail.progress
    last = detail.history[0] if detail.history else None
    spans = spans_of(detail.status_changes, detail.now)
    axis = Axis([span for step_spans in spans.values() for span in step_spans])
    silent = {step.id: gap.total_seconds() for step, gap in detail.stalled}
    blocked = {step.id: other.order for step, other in steps_blocked_by_touches(plan)}
    steps: list[Json] = [
        {
            "stepId": step.id,
            "stepOrder": step.order,
            "title": detail.name_of(step),
            "status": str(step.status),
            "state": str(detail.states[step.id]),
            "attempt": step.attempt,
            "holder": agent_name(step.held_by, step.held_session) or None,
            "seconds": time_spent(spans.get(step.id, ())).total_seconds(),
            "spans": [
                [axis.column(s.start, TICKS), axis.column(s.end, TICKS), str(s.status)]
                for s in spans.get(step.id, ())
            ],
            "actions": [*offered(detail.facts_of(step))],
            **non_empty(
                reason=step.fail_reason,
                silentSeconds=silent.get(step.id),
                touches=step.touches and step.touched,
                waitsFor=blocked.get(step.id),
            ),
        }
        for step in plan.steps
    ]
    return {
        "planId": plan.id,
        "name": plan.name,
        **author_view(plan),
        "status": str(plan.state),
        "state": str(detail.shown),
        "stateCounts": {str(state): number for state, number in detail.state_counts.items()},
        "outcome": detail.outcome,
        "stalled": bool(detail.stalled),
        "closed": detail.is_closed,
        "canceled": plan.canceled,
        "reason": plan.fail_reason,
        "question": detail.brief.question,
        "revision": plan.revision,
        "progress": progress.percent,
        "counts": _counts(progress),
        "actions": [*offered(detail.facts)],
        "steps": steps,
        "workedSeconds": axis.worked.total_seconds(),
        "openReview": review_view(detail.review, plan.id, base_url),
        "usage": plan.usage.as_reply(),
        **non_empty(budget=budget_view(plan), workers=worker_views(detail.workers)),
        "lastEvent": _event(last, event_label(last.event, last.action)) if last else None,
        "now": format_time(detail.now),
        "url": plan_url(plan.id, base_url),
    }


async def _run(ctx: RequestContext, query: ViewQuery) -> Body:
    run_id = (await resolve_run(ctx, query.text)).id
    return run_view(await read_run_detail(ctx, run_id, RunInclude.BOARD), ctx.services.base_url)


def run_view(detail: RunDetail, base_url: str = "") -> Body:
    run, dag = detail.run, detail.compiled_dag
    last = detail.history[-1] if detail.history else None
    event = None
    if last is not None:
        about = f": {last.subject}" if last.subject else ""
        event = _event(last, f"{event_label(last.event, last.action, RUN)}{about}")
    workers: list[Json] = [
        {"name": agent_name(w.held_by, w.held_session), "stageSlug": w.stage, "stepKey": w.step_key}
        for w in detail.workers
    ]
    stages: list[Json] = []
    for slug in dag.order:
        stage, graph = detail.stage_report(slug), dag.graphs[slug]
        counts = detail.expected.get(slug)
        steps = [
            {
                **step,
                "state": str(detail.state_of_step(step)),
                "name": graph.steps[step["stepKey"]].name,
                "jobsExpected": counts.jobs(step["stepKey"]).jobs_text if counts else "",
            }
            for step in stage["steps"] or ()
        ]
        named = {"name": dag.stages[slug].name, "totalSteps": len(graph.order)}
        named["state"] = str(detail.state_of_stage(stage))
        stages.append({**stage, **named, "steps": steps or None})  # type: ignore[dict-item]
    return {
        "runId": run.id,
        "name": run.name,
        "dagSlug": dag.dag.slug,
        "dagName": dag.dag.name,
        "version": dag.version,
        "models": [*dict.fromkeys(model for s in run.stages.values() for model in s.models)],
        **detail.full_report,
        "state": str(detail.shown),
        "failedSteps": len(run.failed_steps),
        "actions": [*offered(detail.facts)],
        "stages": stages,
        "closed": detail.is_closed,
        "documentsAvailable": detail.documents_available,
        "documentsExpected": detail.documents_expected,
        "workers": workers,
        "input": detail.input_text,
        "lastEvent": event,
        "now": format_time(detail.now),
        "url": run_url(run.id, base_url),
    }


async def _actions(_: RequestContext, query: ViewQuery) -> Body:
    """Return the texts and tools of the actions that things of each kind may offer."""
    kinds = [kind for kind in Kind if query.text in {None, kind}]
    return {"actions": {str(kind): [act.view() for act in ACTIONS[kind]] for kind in kinds}}


_VIEWS: Final[Mapping[str, Callable[[RequestContext, ViewQuery], Awaitable[Body]]]] = {
    "plans": _plans,
    "runs": _runs,
    "reviews": _reviews,
    "agents": _agents,
    "workflows": _workflows,
    "workers": lambda ctx, _: workers_view(ctx),
    "comments": _comments,
    "plan": _plan,
    "run": _run,
    "actions": _actions,
}


def read_query(wanted: Mapping[str, str]) -> ViewQuery:
    """Read the parameters of a request: `q`, `state` and `limit`."""
    unknown = sorted(wanted.keys() - {"q", "state", "limit"})
    if unknown:
        raise InvalidInput(f"there is no parameter {unknown[0]}; use q, state and limit")
    text, limit = wanted.get("q", "").strip(), wanted.get("limit", "100")
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= MAX_LISTED):
        raise InvalidInput(f"limit must be a number from 1 to {MAX_LISTED}")
    return ViewQuery(text or None, wanted.get("state"), int(limit[:9]))


async def read_view(ctx: RequestContext, view: str, query: ViewQuery) -> Body:
    require_scope(ctx.caller, Scope.PLAN_READ, "reading")
    if view not in _VIEWS:
        raise NotFound(f"there is no view {view}; the views are {', '.join(_VIEWS)}")
    return await _VIEWS[view](ctx, query)
