"""Copies of runs from a stage on: earlier stages are copied, and this stage is repeated."""

import pytest

from dag_builders import make_dag, make_plan_step, make_stage
from plan_builders import PAT
from run_env import RunEnv, make_run
from run_invariants import check_report, check_state
from run_row_store import RunRowStore, changes_of
from waybook.core.changes import differences, replay
from waybook.dag.model import JobStatus, Strategy
from waybook.run.copy import CopiedRun, OriginalDocument, copy_run, earlier_stages
from waybook.run.model import Run, RunDecision, StageRun

TRANSITIONS = [("first", "left"), ("first", "right"), ("left", "last"), ("right", "last")]


@pytest.fixture
def world() -> RunEnv:
    """Return a run of four stages, of which the first two have feedback of a person."""
    stages = [
        make_stage(slug, make_plan_step(f"{slug}-step", Strategy.PER_MODEL))
        for slug in ("first", "left", "right", "last")
    ]
    world = make_run(make_dag(*stages, transitions=TRANSITIONS))
    world.work()
    world.feedback("first")
    world.work()
    world.feedback("left")
    return world


def copied(world: RunEnv, stage: str) -> RunDecision[tuple[StageRun, ...]]:
    records = world.records
    documents = [
        OriginalDocument(
            id=document.id,
            stage=document.stage,
            step_key=document.step_key,
            job_id=document.job_id,
            document_key=document.document_key,
            origin=document.origin,
            content_hash=document.content_hash,
        )
        for document in records.documents.values()
    ]
    jobs = [job for job in records.jobs.values() if job.unit and job.status is JobStatus.COMPLETED]
    source = CopiedRun(run=world.run, input={"brief": "Go."}, jobs=jobs, documents=documents)
    return copy_run(source, world.chart, "copy", stage, world.moment(PAT))


def stored(world: RunEnv, decision: RunDecision[tuple[StageRun, ...]]) -> RunRowStore:
    empty = Run(id="copy", name="", seq=0, completed_at=None, stages={}, steps={})
    records = RunRowStore(chart=world.chart, run=empty, now=world.records.now)
    records.write(decision)
    return records


@pytest.mark.parametrize("stage", ["first", "left", "right"])
def test_copy_of_a_run_replays_to_the_same_rows(world: RunEnv, stage: str) -> None:
    decision = copied(world, stage)
    records = stored(world, decision)
    check_state(records)
    check_report(records, None)
    assert differences(replay(changes_of(decision)), records.rows()) == []
    assert [*records.run.stages] == [*earlier_stages(world.chart, stage), stage]
    assert records.run.stages[stage].completed_at is None
    assert (records.run.copied_from, records.run.copied_seq) == (world.run.id, world.run.seq)
    assert records.run.name == "Rivers (copy)"
