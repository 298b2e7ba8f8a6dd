"""Cancels a run, and refuses every later change to it.

A canceled run keeps all its rows. A result for one of its jobs is refused, but stored as a late
result.
"""

from dataclasses import dataclass

from waybook.core.changes import Event
from waybook.core.decision_context import DecisionContext
from waybook.errors import InvalidTransition, NextCall, RunCanceled
from waybook.run.draft import RunDecision, RunDraft
from waybook.run.model import CompiledDag, Run


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Reply to a cancellation, with the amount of unfinished work."""

    open_units: int


def cancel_run(
    run: Run, compiled_dag: CompiledDag, reason: str, context: DecisionContext
) -> RunDecision[Cancellation]:
    """Cancel a run permanently. Its rows and documents are not changed.

    Raises:
        RunCanceled: the run is already canceled.
        InvalidTransition: the run is completed.
    """
    require_active(run)
    if run.completed_at is not None:
        raise InvalidTransition(
            "this run is already completed and cannot be canceled",
            old="completed",
            new="canceled",
            runId=run.id,
            next_call=_look(run),
        )
    draft = RunDraft(run, compiled_dag, context)
    draft.set_run(canceled_at=context.now, canceled_by=context.actor.user, cancel_reason=reason)
    draft.record(Event.PLAN_MODIFIED, action="cancel_run", reason=reason)
    open_units = sum(step.total - step.done - step.failed for step in run.steps.values())
    return draft.decide(Cancellation(open_units))


def cancellation_error(run: Run, **details: object) -> RunCanceled | None:
    if run.canceled_at is None:
        return None
    # A user wrote the reason, so the server's message does not repeat it.
    return RunCanceled(
        f"{run.canceled_by} canceled this run; `reason` says why",
        runId=run.id,
        canceledBy=run.canceled_by,
        canceledAt=run.canceled_at.isoformat(),
        reason=run.cancel_reason,
        **details,
        next_call=_look(run),
    )


def require_active(run: Run) -> None:
    refusal = cancellation_error(run)
    if refusal is not None:
        raise refusal


def _look(run: Run) -> NextCall:
    return NextCall("get_run_progress", {"runId": run.id}, "See what the run produced.")
