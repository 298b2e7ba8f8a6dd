"""State space of a small stage, explored through the run rules (functions of `waybook.run`).

A state contains only the parts of a run that the rules read. For each job, these are the position,
the status, the number of attempts since the last call of `retry_failed`, whether an agent can claim
the job, and whether the job was claimed before; ids and times are omitted. The exploration makes
every possible call on every job in each state, and also lets time pass for each job.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeAlias

from plan_builders import NOON, PAT, numbered_ids
from report_invariants import completed_never_decreases
from run_env import make_run
from run_invariants import check_decision, check_report, check_state
from run_row_store import LEASE, RunRowStore
from waybook.core.decision_context import DecisionContext
from waybook.dag.model import JobStatus, Stage
from waybook.dag.progress.report import Report
from waybook.errors import WaybookError
from waybook.run.failure import cancel_run, fail_job, regenerate, retry_failed
from waybook.run.model import Job, RunDecision
from waybook.run.next_job import next_job
from waybook.run.submit import Submission, SubmittedDocument, submit_job

OLD = NOON - LEASE - timedelta(minutes=1)
TEXT = (SubmittedDocument(content="text"),)
#: Documents with a list of items that a job submits, by the version of the document.
LISTS = {
    1: (SubmittedDocument(content='["a", {"b": 1}]'),),
    2: (SubmittedDocument(content='["c"]'),),
}
NEW_IDS = numbered_ids("new")

Call: TypeAlias = Callable[[], RunDecision[object]]
#: Part of a state that describes one job: its position, the version of the document that it
#: regenerates, and other properties that the rules read.
JobKey: TypeAlias = tuple[str, int, int, int, str, int, bool, bool, bool]
StepKey: TypeAlias = tuple[str, int, int, int, bool]
#: Number of items in a list, and in its newer version if there is one.
ListKey: TypeAlias = tuple[int, int | None]
State: TypeAlias = tuple[tuple[JobKey, ...], tuple[StepKey, ...], tuple[ListKey, ...], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    #: Maximum number of parts into which an agent may split a result.
    parts: int = 1
    #: Maximum number of calls that regenerate a document.
    regenerations: int = 0
    #: True if calls that cancel the run are tried.
    cancellations: bool = False


@dataclass(slots=True)
class RunStateSpace:
    bounds: Bounds
    records: list[RunRowStore] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    #: For each state, the numbers of the states from which it was reached.
    reached_from: list[set[int]] = field(default_factory=list)
    edges: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    _seen: dict[State, int] = field(default_factory=dict)

    def meet(self, records: RunRowStore) -> int:
        """Return the number of this state; if it is new, add and check it."""
        number = self._seen.setdefault(state_of(records), len(self._seen))
        if number == len(self.records):
            check_state(records)
            self.records.append(records)
            self.reports.append(check_report(records, None))
            self.reached_from.append(set())
        return number

    def ends(self) -> list[int]:
        runs = [records.run for records in self.records]
        return [n for n, run in enumerate(runs) if run.completed_at or run.canceled_at]

    def dead_ends(self) -> list[RunRowStore]:
        """Return the states from which no sequence of calls completes or cancels the run."""
        alive = set(self.ends())
        waiting = [*alive]
        while waiting:
            fresh = self.reached_from[waiting.pop()] - alive
            alive |= fresh
            waiting += fresh
        return [records for n, records in enumerate(self.records) if n not in alive]


def walk(stage: Stage, models: tuple[str, ...], bounds: Bounds) -> RunStateSpace:
    """Explore every state of a run within these limits, breadth-first from the new run."""
    paths = RunStateSpace(bounds)
    paths.meet(make_run(stage, models).records)
    # The loop itself adds states to this list.
    for number, records in enumerate(paths.records):
        for after in _next_records(paths, records):
            there = paths.meet(after)
            assert completed_never_decreases(paths.reports[number], paths.reports[there])
            paths.reached_from[there].add(number)
    return paths


def _next_records(paths: RunStateSpace, records: RunRowStore) -> Iterator[RunRowStore]:
    for call in calls(records, paths.bounds):
        try:
            decision = call()
        except WaybookError as refusal:
            paths.errors[refusal.code] += 1
            continue
        after = records.copied()
        after.write(decision)
        check_decision(records, after, decision)
        paths.edges += 1
        if decision.refusal is not None:
            paths.errors[decision.refusal.code] += 1
        else:
            yield after
    for job in records.open():
        yield from _later(records, job)


def state_of(records: RunRowStore) -> State:
    """Return the parts of a run that affect the decisions of the rules."""
    jobs = sorted(_job_key(records, job) for job in records.jobs.values())
    steps = sorted(
        (step.key, step.total, step.done, step.failed, step.closed_at is not None)
        for step in records.run.steps.values()
    )
    lists = tuple((known.length, known.newer and known.newer[0]) for known in records.run.lists)
    return tuple(jobs), tuple(steps), lists, records.run.canceled_at is not None


def _job_key(records: RunRowStore, job: Job) -> JobKey:
    version = 0 if job.document is None else records.documents[job.document].version
    number = 0 if job.unit is None else job.unit.number
    tries = 0 if job.completed_at else job.tries
    free = job.completed_at is None and records.is_free(job)
    place = (job.step_key, number, version, job.part)
    return (*place, job.status, tries, free, job.attempt > 0, job.counted)


def calls(records: RunRowStore, bounds: Bounds) -> Iterator[Call]:
    run, compiled_dag = records.run, records.chart
    moment = DecisionContext(NOON, PAT, NEW_IDS, NEW_IDS)
    if bounds.cancellations:
        yield partial(cancel_run, run, compiled_dag, "no longer needed", moment)
    for job in records.jobs.values():
        yield from _work(records, job, bounds, moment)
    for slug in run.stages:
        for key in (None, *compiled_dag.graphs[slug].order):
            failed = records.failed(slug, key)
            yield partial(retry_failed, run, compiled_dag, slug, failed, moment, step_key=key)
    if (
        sum(job.status is JobStatus.SUPERSEDED for job in records.jobs.values())
        < bounds.regenerations
    ):
        for document in records.documents.values():
            maker = records.jobs[document.job_id]
            yield partial(regenerate, run, compiled_dag, maker, document.id, moment)


def _work(
    records: RunRowStore, job: Job, bounds: Bounds, context: DecisionContext
) -> Iterator[Call]:
    run, compiled_dag, attempt = records.run, records.chart, job.attempt
    if job.completed_at is None and records.is_free(job):
        claim = partial(next_job, run, compiled_dag, context, held=None, is_open=False)
        yield partial(claim, candidate=job)
    fail = partial(fail_job, run, compiled_dag, job, error="no luck", context=context)
    version = 1 if job.document is None else records.latest(job.document).version + 1
    before = {"parts": records.parts(job), "version": version}
    documents = (
        LISTS[min(version, 2)] if (job.stage, job.step_key) in compiled_dag.produced_lists else TEXT
    )
    for this in {attempt, max(attempt - 1, 0)}:
        if job.completed_at is None:
            yield partial(fail, attempt=this, retryable=True)
            yield partial(fail, attempt=this, retryable=False)
        done = Submission(documents=documents, attempt=this)
        yield partial(submit_job, run, compiled_dag, job, done, context, **before)  # type: ignore[arg-type]  # values of different types
    if job.part < bounds.parts:
        part = Submission(documents=TEXT, attempt=attempt, continues=True)
        yield partial(submit_job, run, compiled_dag, job, part, context, **before)  # type: ignore[arg-type]  # as above


def _later(records: RunRowStore, job: Job) -> Iterator[RunRowStore]:
    """Yield a copy of the run in which this job can be claimed, unless it can be claimed now."""
    if records.is_free(job):
        return
    after = records.copied()
    after.jobs[job.id] = job._replace(ready_at=OLD, started_at=OLD)
    after.seen[job.id] = OLD
    yield after
