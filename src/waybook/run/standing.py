"""Where a run stands as a whole, in one word for people."""

from enum import StrEnum

from waybook.run.model import CompiledDag, Run


class RunState(StrEnum):
    """The first that holds, from the top."""

    COMPLETED = "completed"
    #: A step of a stage failed for good; other work may still go on.
    FAILED = "failed"
    #: Nothing is left to do before a person has said something.
    AWAITING_FEEDBACK = "awaiting_feedback"
    IN_PROGRESS = "in_progress"


def run_state(run: Run, compiled_dag: CompiledDag) -> RunState:
    """Where the run stands."""
    if run.completed_at is not None:
        return RunState.COMPLETED
    if any(step.failed and step.closed_at is None for step in run.steps.values()):
        return RunState.FAILED
    waits = awaiting_feedback(run, compiled_dag) is not None
    return RunState.AWAITING_FEEDBACK if waits else RunState.IN_PROGRESS


def awaiting_feedback(run: Run, compiled_dag: CompiledDag) -> str | None:
    """The stage a person has to say something of; none while other stages are worked on."""
    if any(stage.completed_at is None for stage in run.stages.values()):
        return None
    waiting = (
        slug
        for slug in compiled_dag.order
        if (stage := run.stages.get(slug))
        and stage.feedback is None
        and compiled_dag.dag.after(slug)
    )
    return next(waiting, None)
