"""Statuses of steps and stages, which follow from the jobs of the steps."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_chain, make_recipe, make_step, recipes
from dag_evidence import any_evidence
from waybook.dag.graph import Graph, graph_of
from waybook.dag.model import FAILED_JOB, JobStatus, JobType, ProgressStatus, Recipe
from waybook.dag.progress.structure import (
    COUNTED,
    IGNORED,
    Evidence,
    JobEvidence,
    evidence_of,
    overlay,
    stage_status,
)
from waybook.dag.progress.structure import FAILED as COUNTED_FAILED

S = ProgressStatus

#: Graph with a chain of four steps; a fifth step, `side`, depends on the step `second`.
ROW = graph_of(
    make_recipe(
        *map(make_step, ["first", "second", "third", "last", "side"]),
        edges=[*make_chain("first", "second", "third", "last"), ("second", "side")],
    )
)


@given(recipes(), st.data())
def test_step_statuses_of_any_graph_follow_the_documented_rules(
    recipe: Recipe, data: st.DataObject
) -> None:
    graph = graph_of(recipe)
    evidence = data.draw(any_evidence(graph))
    by_rules = {key: by_the_rules(graph, evidence, key) for key in graph.order}
    assert overlay(graph, evidence) == by_rules


def by_the_rules(graph: Graph, evidence: Mapping[str, Evidence], key: str) -> ProgressStatus:
    """Return a step's status by the rules in the documentation."""
    own = evidence.get(key, Evidence())
    if own.closed:
        return S.COMPLETED
    if own.failed:
        return S.FAILED
    if own.active:
        return S.IN_PROGRESS
    if own.done or any(evidence.get(k, Evidence()).is_reached for k in behind(graph, key)):
        return S.COMPLETED
    before = (by_the_rules(graph, evidence, k) for k in graph.predecessors[key])
    skipped = graph.steps[key].skip and all(standing is S.COMPLETED for standing in before)
    return S.COMPLETED if skipped else S.NOT_STARTED


def behind(graph: Graph, key: str) -> set[str]:
    """Return all steps that depend on this step, directly or through other steps."""
    successors: set[str] = set()
    pending = [*graph.successors[key]]
    while pending:
        if (step := pending.pop()) not in successors:
            successors.add(step)
            pending += graph.successors[step]
    return successors


@pytest.mark.parametrize(
    ("steps", "stage"),
    [
        ([], S.NOT_STARTED),
        ([S.NOT_STARTED, S.NOT_STARTED], S.NOT_STARTED),
        ([S.IN_PROGRESS, S.NOT_STARTED], S.IN_PROGRESS),
        ([S.COMPLETED, S.NOT_STARTED], S.IN_PROGRESS),
        ([S.COMPLETED, S.COMPLETED], S.COMPLETED),
        ([S.COMPLETED, S.FAILED], S.FAILED),
        ([S.COMPLETED, S.FAILED, S.IN_PROGRESS], S.FAILED),
    ],
)
def test_stage_status_is_derived_from_step_statuses(
    steps: list[ProgressStatus], stage: ProgressStatus
) -> None:
    assert stage_status(steps) is stage


def work(status: str, step: str | None = "first", kind: str = JobType.EXECUTE) -> JobEvidence:
    return step, kind, status


def test_every_job_status_except_superseded_is_counted() -> None:
    assert set(COUNTED) == set(JobStatus)
    assert {status for status, place in COUNTED.items() if place == COUNTED_FAILED} == FAILED_JOB
    assert {status for status, place in COUNTED.items() if place == IGNORED} == {"superseded"}


def test_jobs_are_counted_by_step_and_status() -> None:
    jobs = [work("completed"), work("completed"), work("waiting"), work("failed", "second")]
    evidence_by_step, warnings = evidence_of(jobs, closed=["second", "third"])
    assert evidence_by_step == {
        "first": Evidence(done=2, active=1),
        "second": Evidence(closed=True, failed=1),
        "third": Evidence(closed=True),
    }
    assert warnings == []


@pytest.mark.parametrize(
    "job",
    [work("superseded"), work("pending", None), work("pending", kind=JobType.RENDER)],
    ids=["superseded", "without a step", "RENDER"],
)
def test_render_jobs_and_superseded_jobs_are_not_counted(job: JobEvidence) -> None:
    evidence_by_step, warnings = evidence_of([job])
    assert not any(evidence.is_reached for evidence in evidence_by_step.values())
    assert warnings == []


def test_jobs_with_unknown_status_count_as_unfinished_with_a_warning() -> None:
    evidence_by_step, warnings = evidence_of([work("paused"), work("paused"), work("completed")])
    assert evidence_by_step == {"first": Evidence(done=1, active=2)}
    assert warnings == [
        "step 'first': 2 jobs in the unknown status 'paused', counted as unfinished"
    ]


def test_step_with_a_pending_continuation_job_stays_in_progress() -> None:
    before, _ = evidence_of([work("processing")])
    after, _ = evidence_of([work("completed"), work("pending")])
    assert overlay(ROW, before)["first"] is overlay(ROW, after)["first"] is S.IN_PROGRESS
