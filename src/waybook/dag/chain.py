"""A plan seen as a map: one stage, its steps in a chain, and where they stand.

A plan knows itself where its steps stand, so nothing is concluded from steps further on: a
pending step before a completed one is still to be done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from waybook.dag.model import Dag, Recipe, Stage, Standing
from waybook.dag.overlay import Evidence
from waybook.dag.report import Report, StageEvidence, report
from waybook.dag.structure import Structure

#: What the only stage is called.
STAGE = "plan"

# fmt: off
#: A plan's step statuses, by their words, as a map knows them.
STANDINGS: Mapping[str, Standing] = MappingProxyType({
    "pending":        Standing.NOT_STARTED,
    "in_progress":    Standing.IN_PROGRESS,
    "awaiting_input": Standing.IN_PROGRESS,
    "completed":      Standing.COMPLETED,
    "skipped":        Standing.COMPLETED,
    "failed":         Standing.FAILED,
})
# fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A step of a plan."""

    key: str
    status: str
    started_at: str | None = None
    completed_at: str | None = None


class PlanReport(Report):
    #: Moves on when the plan's steps change, as those of a started stage never do.
    revision: int


def plan_report(name: str, steps: Sequence[Link], revision: int) -> PlanReport:
    """The report of a plan: a stage that fails with a step, though the plan may complete."""
    dag = Dag(slug=STAGE, name=name, stages=(Stage(STAGE, name, Recipe(())),))
    seen = StageEvidence(
        standings={step.key: STANDINGS[step.status] for step in steps},
        steps={step.key: _evidence(step) for step in steps},
    )
    structure = Structure(dag=dag, graphs={}, sound=frozenset())
    return {**report(structure, {STAGE: seen} if steps else {}), "revision": revision}


def _evidence(step: Link) -> Evidence:
    standing = STANDINGS[step.status]
    return Evidence(
        done=int(step.status == Standing.COMPLETED),
        active=int(standing is Standing.IN_PROGRESS),
        failed=int(standing is Standing.FAILED),
        started_at=step.started_at,
        completed_at=step.completed_at,
    )
