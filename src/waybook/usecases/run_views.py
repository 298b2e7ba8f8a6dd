"""How runs, stages and jobs look in a reply."""

from waybook.record.moment import Json
from waybook.run.model import CompiledDag, Job, Run, StageRun
from waybook.usecases.call import Body
from waybook.usecases.views import next_call


def stage_view(run: Run, compiled_dag: CompiledDag, slug: str) -> Body:
    """A stage with its progress, numerator and denominator."""
    steps = [step for step in run.steps.values() if step.stage == slug]
    total = len(compiled_dag.graphs[slug].order) if slug in run.stages else 0
    return {
        "stageSlug": slug,
        "status": stage_status(run, slug),
        "progress": {
            "completedSteps": sum(step.closed_at is not None for step in steps),
            "totalSteps": total,
            "failedSteps": sum(step.failed > 0 and step.closed_at is None for step in steps),
        },
    }


def stage_status(run: Run, slug: str) -> str:
    """Where a stage of our own stands."""
    stage = run.stages.get(slug)
    if stage is None:
        return "not_started"
    if stage.completed_at is not None:
        return "completed"
    failed = any(s.failed and s.closed_at is None for s in run.steps.values() if s.stage == slug)
    return "failed" if failed else "in_progress"


def started_view(stage: StageRun, run: Run) -> Body:
    """A stage that has just been started."""
    opened = [step for step in run.steps.values() if step.stage == stage.slug]
    steps: list[Json] = [{"stepKey": step.key, "jobs": step.total} for step in opened]
    return {"stageSlug": stage.slug, "models": [*stage.models], "openSteps": steps}


def next_job_call(run_id: str, why: str = "take a job of this run") -> Json:
    """The call that gets the next job of a run."""
    return next_call("get_next_job", why, runId=run_id)


def job_view(job: Job) -> Body:
    """A job in a list."""
    return {
        "jobId": job.id,
        "stageSlug": job.stage,
        "stepKey": job.step_key,
        "modelId": job.model,
        "status": str(job.status),
        "attempt": job.attempt,
    }


def next_after_job(run: Run, compiled_dag: CompiledDag, slug: str) -> Json:
    """The call that makes sense once a job is over."""
    if run.completed_at is not None:
        return next_call("get_run_progress", "the run is complete; see its documents", runId=run.id)
    if awaits_feedback(run, compiled_dag, slug):
        why = "the stage is complete; pass on what a person says of it, it opens the next stage"
        return next_call("submit_stage_feedback", why, runId=run.id, stageSlug=slug)
    return next_job_call(run.id)


def awaits_feedback(run: Run, compiled_dag: CompiledDag, slug: str) -> bool:
    """Whether a person has to say something of this stage before the run goes on from it."""
    stage = run.stages[slug]
    told = stage.feedback is not None or not compiled_dag.dag.after(slug)
    return stage.completed_at is not None and not told
