"""Formats plans, steps, reviews, runs, jobs and outputs for replies, within size limits."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import orjson

from waybook.app.request.caller import MAX_REPLY_BYTES, review_url
from waybook.core.decision_context import Channel
from waybook.json_values import Body, Json, fields_of, format_time, non_empty
from waybook.plan.draft import copy_call
from waybook.plan.model import (
    MAX_WAIT_SECONDS,
    Output,
    Plan,
    PlanId,
    PlanState,
    Review,
    Round,
    Step,
    StepType,
)
from waybook.plan.progress import budget_json, is_missing, whole_minutes
from waybook.research.packet import as_text, fair_share
from waybook.run.model import CompiledDag, Job, Run, StageRun

RESULTS_BUDGET = 24_000
_MIN_SHARE_BYTES = 160
DETAIL_RESULTS_BUDGET = 96_000
MAX_BYTES_PER_CHARACTER = 6
MAX_COMPACT_REPLY_BYTES = 46_000
#: The 4,096 bytes below the limit leave space for warnings and notices in the reply.
MAX_DETAIL_REPLY_BYTES = MAX_REPLY_BYTES - 4_096
_UNLIMITED = 2**31 - 1


def reply_limit(channel: Channel, *, detail: bool) -> int:
    if detail:
        return _UNLIMITED if channel is Channel.CLI else MAX_DETAIL_REPLY_BYTES
    return MAX_COMPACT_REPLY_BYTES


def next_call(tool: str, why: str, **args: Json) -> Json:
    return {"tool": tool, "args": args, "why": why}


def work_call(step: Step) -> Json:
    if step.type is StepType.CHECKPOINT:
        why = "Ask a person to decide this step."
        return next_call("request_user_review", why, stepId=step.id, attempt=step.attempt)
    args: Body = {"stepId": step.id, "attempt": step.attempt, "takeNext": True}
    return next_call("submit_step_result", "Submit the result.", **args)


def copy_plan_call(plan: Plan) -> Json:
    call = copy_call(plan)
    return next_call(call.tool, call.why, planId=plan.id)


def wait_for_review_call(plan_id: str) -> Json:
    return wait_call(plan_id, "Wait: a person decides, not you.")


def wait_call(plan_id: str, why: str) -> Json:
    """Return the call that waits until a step is free, a review is decided, or the plan ends."""
    return next_call("get_next_step", why, planId=plan_id, waitSeconds=MAX_WAIT_SECONDS)


def author_view(plan: Plan) -> Body:
    return non_empty(createdBy=plan.created_by, createdAt=format_time(plan.created_at))


def canceled_view(plan: Plan) -> Body:
    """Return the outcome `canceled` of a canceled plan, whose stored status is only `failed`."""
    return {"outcome": str(PlanState.CANCELED)} if plan.canceled else {}


def origin_view(copy: Plan | Run) -> Body | None:
    if copy.copied_from is None:
        return None
    name = "planId" if isinstance(copy, Plan) else "runId"
    return {name: copy.copied_from, "auditSeq": copy.copied_seq}


def step_header(step: Step, **more: Json) -> Body:
    return non_empty(
        stepId=step.id,
        stepOrder=step.order,
        stepType=str(step.type),
        title=step.title,
        status=str(step.status),
        **more,
    )


def step_view(step: Step, **more: Json) -> Body:
    more["answersRevision"] = step.answers_revision
    more["touches"] = step.touches and step.touched
    return step_header(step, dependsOn=[*step.depends_on] or None, **more)


def place_view(step: Step) -> Body:
    return {"stepId": step.id, "stepOrder": step.order}


def round_view(round_: Round) -> Body:
    """Return the number of a repetition of steps, and the condition that caused it."""
    return non_empty(
        number=round_.number,
        of=round_.most,
        condition=round_.condition.expression,
        values={**round_.values},
        reason=round_.condition.reason,
    )


def completion_view(step: Step) -> Body:
    if step.completed_at is None:
        return {}
    return non_empty(
        completedBy=step.held_by,
        completedAt=format_time(step.completed_at),
        copiedFromStep=step.copied_from if step.is_carried_over else None,
    )


def holder_view(step: Step) -> Body:
    return step_view(
        step,
        attempt=step.attempt,
        heldBy=step.held_by,
        sessionId=step.held_session,
        since=format_time(step.in_progress_since),
        lastSeenAt=format_time(step.last_seen_at),
    )


def stalled_view(stalled: Iterable[tuple[Step, timedelta]]) -> list[Json]:
    return [
        non_empty(
            stepId=step.id,
            stepOrder=step.order,
            minutes=whole_minutes(gap),
            heldBy=step.held_by,
            silentHolders=step.silent_holders,
        )
        for step, gap in stalled
    ]


def review_view(review: Review | None, plan_id: PlanId, base_url: str) -> Body | None:
    return review and non_empty(
        reviewId=review.id,
        **fields_of(review, "step_id summary questions requested_at requested_by"),
        **fields_of(review, "decision feedback decided_by decided_at"),
        reviewUrl=review_url(plan_id, base_url),
    )


def budget_view(plan: Plan) -> Body | None:
    return budget_json(plan.budget, plan.usage) if plan.budget else None


def truncate_results(results: Mapping[str, Json], *, budget: int) -> dict[str, Body]:
    """Return the result of each step, and cut the longest results to fit the budget.

    A cut result includes the call that returns the rest.
    """
    texts = {step_id: as_text(value) for step_id, value in results.items()}
    share = result_share([len(text) for text in texts.values()], budget)
    return {
        step_id: {"resultSummary": value}
        if len(texts[step_id]) <= share
        else cut_result(step_id, texts[step_id][:share], len(texts[step_id]) - share)
        for step_id, value in results.items()
    }


def result_share(lengths: list[int], budget: int) -> int:
    return max(_MIN_SHARE_BYTES, fair_share(lengths, budget))


def cut_result(step_id: str, text: str, left: int) -> Body:
    rest = next_call(
        "get_step_context", "Read the rest.", stepId=step_id, part="result", offset=len(text)
    )
    return {"resultSummary": text, "cut": {"left": left, "get": rest}}


def fit_reply(
    body: Body, lists: tuple[str, ...], detail_call: Json, most: int = MAX_COMPACT_REPLY_BYTES
) -> Body:
    """Shorten the longest lists of a reply until the reply fits.

    The reply then includes the call that returns all items.
    """
    sizes = {name: [len(orjson.dumps(item)) + 1 for item in _items(body[name])] for name in lists}
    kept_counts = {name: len(items) for name, items in sizes.items()}
    size = len(orjson.dumps(body))
    while size > most and any(kept_counts.values()):
        longest = max(lists, key=lambda name: sum(sizes[name][: kept_counts[name]]))
        half = kept_counts[longest] // 2
        size -= sum(sizes[longest][half : kept_counts[longest]])
        kept_counts[longest] = half
    left: Body = {name: len(sizes[name]) - kept_counts[name] for name in lists}
    if not any(left.values()):
        return body
    cut = {name: _items(body[name])[: kept_counts[name]] for name in lists}
    return {
        **body,
        **cut,
        "cut": {"left": {n: k for n, k in left.items() if k}, "get": detail_call},
    }


def _items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def fit_views(views: Sequence[Json], room: int) -> list[Json]:
    listed: list[Json] = []
    for view in views:
        room -= len(orjson.dumps(view)) + 1
        if room < 0:
            break
        listed.append(view)
    return listed


def stage_view(run: Run, compiled_dag: CompiledDag, slug: str) -> Body:
    stage, status, total = run.stages.get(slug), "not_started", 0
    failed = sum(step.stage == slug for step in run.failed_steps)
    if stage is not None:
        open_status = "failed" if failed else "in_progress"
        status = "completed" if stage.completed_at is not None else open_status
        total = len(compiled_dag.graphs[slug].order)
    steps = [step for step in run.steps.values() if step.stage == slug]
    done = sum(step.closed_at is not None for step in steps)
    progress: Body = {"completedSteps": done, "totalSteps": total, "failedSteps": failed}
    return {"stageSlug": slug, "status": status, "progress": progress}


def started_view(stage: StageRun, run: Run) -> Body:
    opened = [step for step in run.steps.values() if step.stage == stage.slug]
    steps: list[Json] = [{"stepKey": step.key, "jobs": step.total} for step in opened]
    return {"stageSlug": stage.slug, "models": [*stage.models], "openSteps": steps}


def cancellation_view(run: Run) -> Body:
    return non_empty(
        canceledBy=run.canceled_by,
        canceledAt=format_time(run.canceled_at),
        reason=run.cancel_reason,
    )


def next_job_call(run_id: str, why: str = "Claim a job of this run.") -> Json:
    return next_call("get_next_job", why, runId=run_id)


def wait_for_job_call(run_id: str, why: str) -> Json:
    return next_call("get_next_job", why, runId=run_id, waitSeconds=MAX_WAIT_SECONDS)


def wait_for_feedback_call(run_id: str) -> Json:
    return wait_for_job_call(run_id, "Wait: a person reviews the stage, not you.")


def job_view(job: Job) -> Body:
    return {
        "jobId": job.id,
        "stageSlug": job.stage,
        "stepKey": job.step_key,
        "modelId": job.model,
        "status": str(job.status),
        "attempt": job.attempt,
    }


def awaits_feedback(run: Run, compiled_dag: CompiledDag, slug: str) -> bool:
    stage = run.stages[slug]
    can_proceed = stage.feedback is not None or not compiled_dag.dag.after(slug)
    return stage.completed_at is not None and not can_proceed


def output_view(output: Output) -> Body:
    return {
        "outputId": output.id,
        **fields_of(output, "title media_type version created_at created_by"),
    }


def next_after_completion(
    plan_id: str, media_type: str | None, skill_execution: str | None, outputs: Sequence[Output]
) -> Json:
    if is_missing(outputs, media_type):
        why = "Write the output from all results (see get_research_context) and store it."
        return next_call("store_research_output", why, planId=plan_id, mediaType=media_type)
    if not outputs:
        why = "Read all results, then write the output."
        return next_call("get_research_context", why, planId=plan_id)
    if skill_execution is not None:
        why = "The output is stored. Report that the skill's work is done."
        return next_call("complete_skill", why, skillExecutionId=skill_execution)
    return next_call("list_active_plans", "The output is stored. List the open plans.")
