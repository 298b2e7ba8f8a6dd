"""Invariants of runs: checks that every state and every decision must pass."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dag_runs import dag_counts
from report_invariants import check
from run_row_store import WITH_TEXTS, RunRowStore, changes_of, row_key
from waybook.core.changes import Change, Entity, Rows, _apply, differences, replay
from waybook.dag.expansion.units import item_origins, units_of
from waybook.dag.graph import output_keys
from waybook.dag.model import FAILED_JOB, JobStatus, JobType
from waybook.dag.progress.report import Report, report
from waybook.dag.progress.structure import evidence_of, overlay, valid_structure
from waybook.run.model import Job, Run, RunDecision, StepRun, step_id
from waybook.run.status import run_evidence

J = JobStatus

# fmt: off
#: Allowed status changes of a job. When another agent takes a job over, the status does not change.
JOB_MOVES: Mapping[JobStatus, frozenset[JobStatus]] = MappingProxyType({
    J.PENDING:           frozenset({J.PROCESSING}),
    J.RETRYING:          frozenset({J.PROCESSING}),
    J.WAITING:           frozenset(),
    J.PROCESSING:        frozenset({J.RETRYING, J.COMPLETED, *FAILED_JOB}),
    J.FAILED:            frozenset({J.PENDING}),
    J.RETRY_LOOP_FAILED: frozenset({J.PENDING}),
    J.COMPLETED:         frozenset({J.SUPERSEDED}),
    J.SUPERSEDED:        frozenset(),
})
#: Allowed status change of a `RENDER` job, which the server completes in one change.
RENDER_MOVES: Mapping[JobStatus, frozenset[JobStatus]] = MappingProxyType({
    J.PENDING:           frozenset({J.COMPLETED}),
})
OVER = frozenset({J.COMPLETED, J.SUPERSEDED, *FAILED_JOB})
# fmt: on


def check_decision(before: RunRowStore, after: RunRowStore, decision: RunDecision[object]) -> None:
    every_change_has_an_entry(before.run, decision)
    recorded_changes_give_the_new_rows(before, after, decision)
    job_statuses_change_as_allowed(before, decision)
    closed_stages_and_steps_stay_closed(before.run, after.run)
    canceled_run_changes_no_more(before.run, decision)
    all_jobs_of_a_step_are_created_together(before, decision)


def every_change_has_an_entry(before: Run, decision: RunDecision[object]) -> None:
    """Check that the numbers of audit entries have no gaps, and that every change has an entry."""
    assert decision.run.seq == before.seq + len(decision.entries)
    assert all(entry.changes for entry in decision.entries)
    if not decision.entries:
        assert decision.run == before
        assert (decision.jobs, decision.documents, decision.texts) == ({}, (), {})


def recorded_changes_give_the_new_rows(
    before: RunRowStore, after: RunRowStore, decision: RunDecision[object]
) -> None:
    """Check that the changes which a decision records turn the old rows into the new rows."""
    changes = changes_of(decision)
    named = {(change.entity, change.id) for change in changes}
    rows: Rows = {}
    for entity, row_id in named:
        row = before.row(entity, row_id)
        rows.setdefault(str(entity), {}).update({row_id: row} if row else {})
    for change in changes:
        _apply(rows[str(change.entity)], change)
    for entity, row_id in named:
        assert rows[str(entity)].get(row_id) == after.row(entity, row_id), (entity, row_id)
    _the_rest_is_as_it_was(before, after, decision, named)


def _the_rest_is_as_it_was(
    before: RunRowStore,
    after: RunRowStore,
    decision: RunDecision[object],
    named: set[tuple[Entity, str]],
) -> None:
    for entity, was, now in (
        (Entity.STAGE_RUN, before.run.stages, after.run.stages),
        (Entity.STAGE_STEP, before.run.steps, after.run.steps),
    ):
        assert was.keys() <= now.keys()
        assert all(
            record == was.get(key) for key, record in now.items() if (entity, key) not in named
        )
    assert {(Entity.JOB, job_id) for job_id in decision.jobs} <= named
    assert {(Entity.DOCUMENT, document.id) for document in decision.documents} <= named
    assert {*decision.texts} == {row_id for entity, row_id in named if entity in WITH_TEXTS}
    if (Entity.RUN, after.run.id) not in named:
        previous = (before.run.id, before.run.name, before.run.completed_at)
        assert (after.run.id, after.run.name, after.run.completed_at) == previous


def job_statuses_change_as_allowed(before: RunRowStore, decision: RunDecision[object]) -> None:
    """Check that new jobs are pending, statuses change as allowed, and claims add an attempt."""
    for job_id, job in decision.jobs.items():
        was = before.jobs.get(job_id)
        if was is None:
            assert (job.status, job.attempt, job.tries) == (J.PENDING, 0, 0)
            continue
        moves = RENDER_MOVES if job.job_type is JobType.RENDER else JOB_MOVES
        taken = job.attempt - was.attempt
        assert job.status in moves[was.status] or (job.status, taken) == (J.PROCESSING, 1)
        assert taken == (job.status is J.PROCESSING or job.job_type is JobType.RENDER)


def closed_stages_and_steps_stay_closed(before: Run, after: Run) -> None:
    """Check that closed stages and steps stay closed, and job totals and models never change."""
    for key, step in before.steps.items():
        now = after.steps[key]
        assert (now.total, now.opened_at) == (step.total, step.opened_at)
        assert step.closed_at is None or now == step
    for slug, stage in before.stages.items():
        then = after.stages[slug]
        assert (then.models, then.prior) == (stage.models, stage.prior)
        assert stage.completed_at is None or then.completed_at == stage.completed_at
        assert stage.feedback is None or then == stage
    assert before.completed_at is None or after.completed_at == before.completed_at


def canceled_run_changes_no_more(before: Run, decision: RunDecision[object]) -> None:
    if before.canceled_at is None:
        return
    after = decision.run._replace(seq=before.seq, usage=before.usage)
    assert after == before
    assert (decision.jobs, decision.documents) == ({}, ())
    kept = {change.entity for change in changes_of(decision)}
    assert kept <= {Entity.LATE_RESULT, Entity.USAGE, Entity.RUN}
    assert (decision.refusal is None) == (kept == set())


def all_jobs_of_a_step_are_created_together(
    before: RunRowStore, decision: RunDecision[object]
) -> None:
    """Check that all jobs of a step are created when the step opens, and no jobs later."""
    came = Counter((job.stage, job.step_key) for job in decision.jobs.values() if _first(job))
    opened = [step for key, step in decision.run.steps.items() if key not in before.run.steps]
    if opened:
        models = {slug: stage.models for slug, stage in decision.run.stages.items()}
        lengths = decision.run.lengths
        expected = dag_counts(before.chart.dag, before.chart.graphs, models, lengths)
        assert all(step.total == expected[step.stage].units[step.key] for step in opened)
    assert came == {(step.stage, step.key): step.total for step in opened if step.total}


def _first(job: Job) -> bool:
    """Return whether a job is new, and neither a continuation nor a repetition of another job."""
    return (job.part, job.document, job.attempt, job.status) == (1, None, 0, J.PENDING) and (
        job.tries == 0 and job.started_at is None and job.unit is not None
    )


def check_state(records: RunRowStore) -> None:
    the_database_would_take_it(records)
    steps_count_their_units(records)
    unit_has_single_open_job(records)
    steps_open_when_they_are_free(records)
    stages_and_the_run_end_with_their_steps(records)


def the_database_would_take_it(records: RunRowStore) -> None:
    for step in records.run.steps.values():
        assert step.done >= 0
        assert step.failed >= 0
        assert step.done + step.failed <= step.total
    for stage in records.run.stages.values():
        assert (stage.feedback is None) == (stage.feedback_at is None)
        assert stage.feedback is None or stage.completed_at
    for job in records.jobs.values():
        assert (job.job_type is JobType.RENDER) == (job.unit is None)
        assert (job.completed_at is not None) == (job.status in OVER)


def steps_count_their_units(records: RunRowStore) -> None:
    jobs = _by_step(records)
    for key, step in records.run.steps.items():
        if step.closed_at is None:
            assert (step.done, step.failed) == _ended(jobs[key])
        else:
            assert (step.done, step.failed) == (step.total, 0)
        units = {job.unit.number for job in jobs[key] if job.unit}
        assert units == set(range(1, step.total + 1))


def _by_step(records: RunRowStore) -> Mapping[str, list[Job]]:
    jobs_by_step = defaultdict[str, list[Job]](list)
    for job in records.jobs.values():
        if job.job_type is not JobType.RENDER:
            jobs_by_step[step_id(job.stage, job.step_key)].append(job)
    return jobs_by_step


def _ended(jobs: list[Job]) -> tuple[int, int]:
    """Return how many jobs completed without a continuation, and how many failed."""
    continued = {job.continues for job in jobs}
    done = sum(job.status is J.COMPLETED and job.id not in continued for job in jobs)
    assert all(job.counted for job in jobs)
    return done, sum(job.status in FAILED_JOB for job in jobs)


def unit_has_single_open_job(records: RunRowStore) -> None:
    units = Counter((j.stage, j.step_key, j.unit.number) for j in records.open() if j.unit)
    assert all(count == 1 for count in units.values())


def steps_open_when_they_are_free(records: RunRowStore) -> None:
    """Check that a step has been opened if and only if all its predecessors are closed."""
    for slug in records.run.stages:
        graph = records.chart.graphs[slug]
        steps = {step.key: step for step in records.run.steps.values() if step.stage == slug}
        closed = {key for key, step in steps.items() if step.closed_at}
        free = {key for key in graph.order if closed.issuperset(graph.predecessors[key])}
        assert steps.keys() == free
        assert all(_is_closed(step) == (step.done == step.total) for step in steps.values())


def _is_closed(step: StepRun) -> bool:
    return step.closed_at is not None


def stages_and_the_run_end_with_their_steps(records: RunRowStore) -> None:
    compiled_dag, run = records.chart, records.run
    closed = Counter(step.stage for step in run.steps.values() if step.closed_at)
    for slug, stage in run.stages.items():
        assert (stage.completed_at is not None) == (
            closed[slug] == len(compiled_dag.graphs[slug].order)
        )
        assert all(
            run.stages[before].feedback is not None for before in compiled_dag.dag.before(slug)
        )
    complete = {slug for slug, stage in run.stages.items() if stage.completed_at}
    assert (run.completed_at is not None) == (complete == {*compiled_dag.order})


def report_of_run(records: RunRowStore) -> Report:
    structure = valid_structure(records.chart.dag, records.chart.graphs)
    evidence = run_evidence(records.run, records.available())
    return report(structure, evidence, lengths=records.run.lengths)


def check_report(records: RunRowStore, before: Report | None) -> Report:
    """Return the report of the run, after checking that it is valid and agrees with the jobs."""
    run_report = report_of_run(records)
    assert check(run_report, before) == []
    assert run_report["warnings"] == []
    by_jobs = _standings_by_jobs(records)
    for stage in run_report["stages"]:
        assert stage["warnings"] == []
        steps = {step["stepKey"]: step["status"] for step in stage["steps"] or []}
        assert steps == by_jobs.get(stage["stageSlug"], {})
    completed = {slug for slug, stage in records.run.stages.items() if stage.completed_at}
    assert run_report["dagProgress"]["completedStages"] == len(completed)
    return run_report


def _standings_by_jobs(records: RunRowStore) -> Mapping[str, Mapping[str, object]]:
    """Return the status of each step, computed only from the jobs and the closed steps."""
    statuses = {}
    for slug in records.run.stages:
        jobs = [j for j in records.jobs.values() if j.stage == slug]
        closed = [s.key for s in records.run.steps.values() if s.stage == slug and s.closed_at]
        evidence, _ = evidence_of(((j.step_key, j.job_type, j.status) for j in jobs), closed)
        statuses[slug] = overlay(records.chart.graphs[slug], evidence)
    return statuses


def check_end(records: RunRowStore, changes: Iterable[Change]) -> None:
    assert records.run.completed_at is not None
    assert differences(replay(changes), records.rows()) == []
    every_document_exists(records)
    every_expected_document_is_rendered(records)


def every_document_exists(records: RunRowStore) -> None:
    """Check that exactly the expected documents exist, and that no version number is missing."""
    versions = defaultdict[object, list[int]](list)
    for document in records.documents.values():
        versions[row_key(document)].append(document.version)
    assert versions.keys() == _promised(records)
    assert all(sorted(numbers) == [*range(1, len(numbers) + 1)] for numbers in versions.values())


def every_expected_document_is_rendered(records: RunRowStore) -> None:
    """Check that no document waits for rendering, and that all expected ones are available."""
    assert records.to_render() == []
    for stage in report_of_run(records)["stages"]:
        assert stage["documentsAvailable"] == stage["documentsExpected"]


def _promised(records: RunRowStore) -> set[object]:
    compiled_dag = records.chart
    items = item_origins(compiled_dag.item_lists, records.run.lengths)
    return {
        (slug, key, document_key, made.model, made.lineage, made.reviewer)
        for slug, stage in records.run.stages.items()
        for key, step in compiled_dag.graphs[slug].steps.items()
        for unit in units_of(
            key,
            compiled_dag.stages[slug],
            compiled_dag.graphs[slug],
            stage.models,
            stage.prior,
            items,
        )
        for made in unit.makes
        for document_key in output_keys(step)
    }
