"""Derives the status of each step from its jobs and its position in the graph.

A step that has jobs, or that a later step has passed, counts as completed unless a job is
unfinished or failed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from waybook.dag.diagnostics import count_noun, quote_name
from waybook.dag.graph import Graph
from waybook.dag.model import FAILED_JOB, JobStatus, JobType
from waybook.dag.statuses import ProgressStatus


class Evidence(NamedTuple):
    """Number of jobs of a step in each state, and whether the step is closed."""

    closed: bool = False
    done: int = 0
    active: int = 0
    failed: int = 0
    started_at: str | None = None
    completed_at: str | None = None

    @property
    def is_reached(self) -> bool:
        return self.closed or bool(self.done or self.active or self.failed)


NO_EVIDENCE = Evidence()

JobEvidence: TypeAlias = tuple[str | None, str, str]


DONE, ACTIVE, FAILED, IGNORED = range(4)
COUNTED: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(JobStatus, ACTIVE),
        **dict.fromkeys(FAILED_JOB, FAILED),
        JobStatus.COMPLETED: DONE,
        JobStatus.SUPERSEDED: IGNORED,
    }
)


def evidence_of(
    jobs: Iterable[JobEvidence], closed: Collection[str] = ()
) -> tuple[dict[str, Evidence], list[str]]:
    """Count the jobs of each step by status, and return warnings.

    RENDER jobs and superseded jobs are ignored. A job with an unknown status counts as unfinished.
    """
    counts = {step: [0, 0, 0, 0] for step in closed}
    warnings: list[str] = []
    render = JobType.RENDER
    for (step, kind, status), many in Counter(jobs).items():
        if step is None or kind == render:
            continue
        if status not in COUNTED:
            warnings.append(_unknown(step, status, many))
        count = counts.get(step)
        if count is None:
            count = counts[step] = [0, 0, 0, 0]
        count[COUNTED.get(status, ACTIVE)] += many
    final = frozenset(closed)
    evidence = {
        step: Evidence(step in final, done, active, failed)
        for step, (done, active, failed, _) in counts.items()
    }
    return evidence, warnings


def _unknown(step: str, status: str, many: int) -> str:
    unknown = f"in the unknown status {quote_name(status)}" if status else "without a status"
    return f"step {quote_name(step)}: {count_noun(many, 'job')} {unknown}, counted as unfinished"


def overlay(graph: Graph, evidence: Mapping[str, Evidence]) -> dict[str, ProgressStatus]:
    passed = _passed(graph, evidence)
    standings: dict[str, ProgressStatus] = {}
    for key in graph.order:
        standing = step_status(evidence.get(key, NO_EVIDENCE), passed=key in passed)
        if standing is ProgressStatus.NOT_STARTED and graph.steps[key].skip:
            standing = _skipped(standings[before] for before in graph.predecessors[key])
        standings[key] = standing
    return standings


def step_status(evidence: Evidence, *, passed: bool) -> ProgressStatus:
    """Return the status of a step that is not skipped.

    >>> step_status(Evidence(done=3, active=1, failed=1), passed=True)
    <ProgressStatus.FAILED: 'failed'>
    """
    if evidence.closed:
        return ProgressStatus.COMPLETED
    if evidence.failed:
        return ProgressStatus.FAILED
    if evidence.active:
        return ProgressStatus.IN_PROGRESS
    return ProgressStatus.COMPLETED if evidence.done or passed else ProgressStatus.NOT_STARTED


def _passed(graph: Graph, evidence: Mapping[str, Evidence]) -> set[str]:
    passed: set[str] = set()
    for key in reversed(graph.order):
        if key in passed or evidence.get(key, NO_EVIDENCE).is_reached:
            passed.update(graph.predecessors[key])
    return passed


def _skipped(before: Iterable[ProgressStatus]) -> ProgressStatus:
    done = all(standing is ProgressStatus.COMPLETED for standing in before)
    return ProgressStatus.COMPLETED if done else ProgressStatus.NOT_STARTED


def stage_status(standings: Collection[ProgressStatus]) -> ProgressStatus:
    """Return the status of a stage from the statuses of its steps.

    >>> stage_status([ProgressStatus.COMPLETED, ProgressStatus.IN_PROGRESS, ProgressStatus.FAILED])
    <ProgressStatus.FAILED: 'failed'>
    >>> stage_status([])
    <ProgressStatus.NOT_STARTED: 'not_started'>
    """
    present = set(standings)
    if ProgressStatus.FAILED in present:
        return ProgressStatus.FAILED
    if present == {ProgressStatus.COMPLETED}:
        return ProgressStatus.COMPLETED
    return (
        ProgressStatus.IN_PROGRESS
        if present - {ProgressStatus.NOT_STARTED}
        else ProgressStatus.NOT_STARTED
    )
