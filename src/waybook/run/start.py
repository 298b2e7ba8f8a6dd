"""Starts a run with its first stage, and later stages after feedback."""

from collections.abc import Sequence

from waybook.core.changes import Event
from waybook.core.decision_context import DecisionContext, require_decider
from waybook.errors import InvalidTransition, NextCall, NotAwaitingReview
from waybook.json_values import Json
from waybook.run.failure import require_active
from waybook.run.model import CompiledDag, Run, RunDecision, RunDraft, StageRun, progress_call
from waybook.run.stages import input_lists, require_stage, start_stage, validate_models


def new_run(
    compiled_dag: CompiledDag,
    run_id: str,
    name: str,
    run_input: Json,
    models: Sequence[str],
    context: DecisionContext,
) -> RunDecision[tuple[StageRun, ...]]:
    lists = input_lists(compiled_dag, run_input)
    run = Run(id=run_id, name=name, seq=0, completed_at=None, stages={}, steps={}, lists=lists)
    draft = RunDraft(run, compiled_dag, context)
    draft.add_run(run_input)
    draft.record(Event.PLAN_MODIFIED, action="run_started", dagSlug=compiled_dag.dag.slug)
    entry = compiled_dag.order[0]
    start_stage(draft, entry, models)
    return draft.decide((draft.stages[entry],))


def give_feedback(
    run: Run,
    compiled_dag: CompiledDag,
    slug: str,
    feedback: str,
    models: Sequence[str] | None,
    context: DecisionContext,
    *,
    place: str | None = None,
) -> RunDecision[tuple[StageRun, ...]]:
    """Store a person's feedback on a completed stage, and start the stages that waited for it.

    Raises:
        RunCanceled: the run is canceled.
        NotFound: the stage does not exist.
        InvalidTransition: the stage is not complete.
        NotAwaitingReview: the stage already has feedback.
        Forbidden: a person must give the feedback.
    """
    require_active(run)
    require_stage(compiled_dag, slug)
    stage = _completed(run, slug, "feedback can be given only on a completed stage")
    if stage.feedback is not None:
        raise NotAwaitingReview(
            f"the stage {slug!r} already has feedback from {stage.feedback_by}; a stage gets "
            "feedback once",
            stageSlug=slug,
            decidedBy=stage.feedback_by,
            decidedAt=stage.feedback_at and stage.feedback_at.isoformat(),
            feedback=stage.feedback,
            next_call=progress_call(run),
        )
    require_decider(context, requested_as=None, look=progress_call(run))
    draft = RunDraft(run, compiled_dag, context)
    by, now = context.actor.user, context.now
    draft.set_stage(slug, feedback=feedback, feedback_at=now, feedback_by=by)
    details: dict[str, Json] = {
        "stageSlug": slug,
        "feedback": feedback,
        "decidedAs": context.actor.principal,
    }
    if place:
        details["place"] = place
    draft.record(Event.USER_REVIEWED, action="stage_feedback", **details)
    chosen = validate_models(models) if models else stage.models
    dag = compiled_dag.dag
    decided = {earlier for earlier, stage in draft.stages.items() if stage.feedback is not None}
    ready = [after for after in dag.after(slug) if decided.issuperset(dag.before(after))]
    for after in ready:
        start_stage(draft, after, chosen)
    return draft.decide(tuple(draft.stages[after] for after in ready))


def start_open_stage(
    run: Run,
    compiled_dag: CompiledDag,
    slug: str,
    models: Sequence[str] | None,
    context: DecisionContext,
) -> RunDecision[tuple[StageRun, ...]]:
    """Start a stage unless it is already started.

    Raises:
        RunCanceled: the run is canceled.
        NotFound: the stage does not exist.
        InvalidTransition: a preceding stage is not complete, or has no feedback yet.
    """
    require_active(run)
    require_stage(compiled_dag, slug)
    draft = RunDraft(run, compiled_dag, context)
    if slug in run.stages:
        return draft.decide(())
    for before in compiled_dag.dag.before(slug):
        stage = _completed(run, before, f"{slug!r} can start only after it")
        if stage.feedback is None:
            raise InvalidTransition(
                f"the stage {slug!r} cannot start before a person gives feedback on {before!r}",
                old="not_started",
                new="in_progress",
                next_call=NextCall(
                    "submit_stage_feedback",
                    {"runId": run.id, "stageSlug": before},
                    "Pass on a person's feedback on the stage.",
                ),
            )
    start_stage(draft, slug, models or run.stages[compiled_dag.dag.before(slug)[-1]].models)
    return draft.decide((draft.stages[slug],))


def _completed(run: Run, slug: str, why: str) -> StageRun:
    stage = run.stages.get(slug)
    if any(step.stage == slug for step in run.failed_steps):
        raise InvalidTransition(
            f"the stage {slug!r} has failed jobs, and waits until a person retries them; {why}",
            old="failed",
            new="completed",
            next_call=progress_call(run),
        )
    if stage is None or stage.completed_at is None:
        state = "not_started" if stage is None else "in_progress"
        raise InvalidTransition(
            f"the stage {slug!r} is {state.replace('_', ' ')}; {why}",
            old=state,
            new="completed",
            next_call=NextCall("get_next_job", {"runId": run.id}, "Claim a job of the run first."),
        )
    return stage
