"""Runs with steps that have a job for each item of a list."""

import json

import pytest

from dag_builders import make_dag, make_input, make_plan_step, make_stage, make_step
from plan_builders import PAT
from run_env import RunEnv, make_run
from run_invariants import check_end, check_report, check_state, report_of_run
from run_row_store import RunRowStore, changes_of
from waybook.core.changes import differences, replay
from waybook.dag.model import Dag, JobStatus, Stage, Strategy
from waybook.errors import InvalidInput, TooLarge
from waybook.run import stages
from waybook.run.copy import CopiedRun, OriginalDocument, copy_run
from waybook.run.model import Run, RunList

S = Strategy


def contracts() -> Stage:
    """Return a stage in which each model reads each item, and one job writes a summary."""
    steps = [
        make_step("read", S.PER_ITEM_AND_MODEL, inputs=["items"]),
        make_step("summary", S.ALL_TO_ONE, inputs=["read"]),
    ]
    return make_stage("only", *steps, edges=[("read", "summary")])


def planned(**values: object) -> Dag:
    """Return two stages with a job per item; the items are a document of the first step, `find`."""
    first = [
        make_plan_step("find", outputs=["clauses"]),
        make_step("look", S.PER_ITEM, inputs=["clauses"], **values),  # type: ignore[arg-type]
    ]
    read = make_step("read", S.PER_ITEM, inputs=[make_input("clauses", "one")])
    group = make_step("group", S.PER_SOURCE_GROUP)
    return make_dag(
        make_stage("one", *first, edges=[("find", "look")]), make_stage("two", read, group)
    )


def listed(world: RunEnv, items: list[object]) -> None:
    world.submit(world.claimed(world.jobs("find")[-1]), json.dumps(items))


def test_input_list_creates_a_job_per_item_and_model() -> None:
    world = make_run(contracts(), items=[f"contract {n}" for n in range(30)])
    assert world.step("read").total == 60
    assert world.run.lists == (RunList("items", 30),)
    world.work()
    while world.render():
        pass
    check_end(world.records, world.changes)


def test_empty_list_closes_the_step_immediately() -> None:
    world = make_run(contracts(), items=[])
    assert world.step("read").closed_at is not None
    assert len(world.jobs("summary")) == 1


def test_starting_a_run_without_the_required_input_list_is_refused() -> None:
    stage = make_stage("only", make_step("read", S.PER_ITEM, inputs=["contracts"]))
    with pytest.raises(InvalidInput, match="`contracts` must be a JSON array"):
        make_run(stage)


def test_submitted_list_creates_a_job_per_item() -> None:
    world = make_run(planned())
    assert report_of_run(world.records)["stages"][0]["documentsExpected"] is None
    listed(world, ["a", "b", "c"])
    assert [job.unit and job.unit.item for job in world.jobs("look")] == [1, 2, 3]
    assert report_of_run(world.records)["stages"][0]["documentsExpected"] == 3
    world.work()
    world.feedback("one")
    assert len(world.jobs("read")) == len(world.jobs("group")) == 3
    world.work()
    while world.render():
        pass
    check_end(world.records, world.changes)


@pytest.mark.parametrize("text", ["three clauses", '{"clauses": ["a"]}', '["a", null]'])
def test_result_that_is_not_the_required_list_is_refused(text: str) -> None:
    world = make_run(planned())
    job = world.claimed(world.jobs("find")[0])
    with pytest.raises(InvalidInput, match="clauses"):
        world.submit(job, text)
    assert world.job(job).status is JobStatus.PROCESSING
    listed(world, ["a"])


def test_submitted_list_that_makes_too_many_jobs_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages, "MAX_JOBS", 5)
    world = make_run(planned())
    with pytest.raises(TooLarge, match=r"6 jobs .* a shorter list"):
        listed(world, ["a", "b", "c", "d", "e"])
    with pytest.raises(TooLarge, match="at most 2"):
        listed(make_run(planned(max_items=2)), ["a", "b", "c"])


def test_items_get_jobs_only_after_a_retry_of_the_failed_list_job() -> None:
    world = make_run(planned())
    world.fail(world.claimed(world.jobs("find")[0]), retryable=False)
    assert world.reached() == ["find"]
    world.retry("one")
    listed(world, ["a"])
    assert len(world.jobs("look")) == 1


def test_list_of_a_skipped_step_creates_no_jobs() -> None:
    steps = [
        make_plan_step("find", outputs=["clauses"], skip=True),
        make_step("look", S.PER_ITEM, inputs=["clauses"]),
    ]
    world = make_run(make_stage("only", *steps, edges=[("find", "look")]))
    assert world.run.completed_at is not None
    assert world.jobs("look") == []


def test_regenerated_list_does_not_replace_a_list_that_already_has_jobs() -> None:
    world = make_run(planned())
    listed(world, ["a", "b"])
    (document,) = world.documents("find")
    world.regenerate(document.id)
    listed(world, ["c"])
    latest = world.documents("find")[-1]
    assert world.run.lists == (RunList("one/clauses", 2, document.id, (1, latest.id)),)
    world.work()
    world.feedback("one")
    assert len(world.jobs("read")) == 2


def test_regenerated_list_replaces_a_list_without_jobs() -> None:
    find, other = make_plan_step("find", outputs=["clauses"]), make_plan_step("other")
    look = make_step("look", S.PER_ITEM, inputs=["clauses"])
    stage = make_stage("one", find, other, look, edges=[("find", "look"), ("other", "look")])
    world = make_run(stage)
    listed(world, ["a", "b"])
    (document,) = world.documents("find")
    world.regenerate(document.id)
    listed(world, ["c"])
    assert world.run.lengths == {"one/clauses": 1}
    world.work("other")
    assert len(world.jobs("look")) == 1


@pytest.mark.parametrize(("is_used", "jobs"), [(True, 2), (False, 1)])
def test_run_copy_uses_regenerated_list_unless_jobs_use_the_old_list(
    *, is_used: bool, jobs: int
) -> None:
    dag = planned()
    if not is_used:
        alone = make_stage("one", make_plan_step("find", outputs=["clauses"]))
        dag = make_dag(alone, dag.stages[1])
    world = make_run(dag)
    listed(world, ["a", "b"])
    world.work()
    world.feedback("one")
    world.work()
    (document,) = world.documents("find")
    world.regenerate(document.id)
    listed(world, ["c"])
    records = copied(world)
    assert len([job for job in records.jobs.values() if job.step_key == "read"]) == jobs
    (known,) = records.run.lists
    copies = [d for d in records.documents.values() if d.step_key == "find"]
    assert known.document in ({document.id} if is_used else {copy.id for copy in copies})


def copied(world: RunEnv) -> RunRowStore:
    """Copy a run from its second stage on; return the copy after checking all invariants."""
    latest = {world.records.latest(id_).id for id_ in world.records.documents}
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
        for document in world.records.documents.values()
        if document.id in latest
    ]
    jobs = [j for j in world.records.jobs.values() if j.unit and j.status is JobStatus.COMPLETED]
    source = CopiedRun(run=world.run, input={}, jobs=jobs, documents=documents)
    decision = copy_run(source, world.chart, "copy", "two", world.moment(PAT))
    empty = Run(id="copy", name="", seq=0, completed_at=None, stages={}, steps={})
    records = RunRowStore(chart=world.chart, run=empty, now=world.records.now)
    records.write(decision)
    check_state(records)
    check_report(records, None)
    assert differences(replay(changes_of(decision)), records.rows()) == []
    return records
