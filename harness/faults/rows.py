"""Database rows at the end of a fault test, as plain values that the checkers read."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from faults.cluster import Cluster
from faults.history import Body
from waybook.store.audit import changes_of

#: Parts of the audit that the checkers read: kinds of rows, fields of these rows, and fields of the
#: details.
WORK: Final = frozenset({"step", "job"})
READ_FIELDS: Final = frozenset({"*", "status", "held_by", "held_session"})
READ_DETAILS: Final = ("stepId", "jobId", "attempt", "resumed", "rationale", "error")
MARK: Final = re.compile(r"k-\d{7,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    plan_id: str
    status: str
    attempt: int
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Row of a job, with timestamps that the database set."""

    run_id: str
    step_key: str
    status: str
    attempt: int
    completed_at: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStep:
    """Row of a step of a run, which ends when all its jobs have ended."""

    total: int
    done: int
    opened_at: Any = None
    closed_at: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    subject_id: str
    seq: int
    event: str
    actor: str
    session: str | None
    details: Body


@dataclass(slots=True, kw_only=True)
class Rows:
    """All database rows that the checkers read."""

    #: Status of each plan, and whether each run is complete, by id.
    plans: dict[str, str] = field(default_factory=dict)
    runs: dict[str, bool] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    #: Steps of runs, by run id and step key.
    stage_steps: dict[tuple[str, str], StageStep] = field(default_factory=dict)
    #: Audit entries, ordered by plan or run, and by their numbers.
    audit: list[Entry] = field(default_factory=list)
    #: Number of times that each call took effect, by tool and idempotency key.
    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Tools and idempotency keys for which an answer is stored.
    answers: set[tuple[str, str]] = field(default_factory=set)
    #: Errors that verification found in each audit chain.
    broken_chains: list[str] = field(default_factory=list)
    replay_differences: list[str] = field(default_factory=list)


#: For each tool, a query for the texts that its calls stored. Each text contains the idempotency
#: key of the call, so that its effects can be counted.
MARKED: Final = {
    "create_research_plan": "select name from plan",
    "start_run": "select name from run",
    "submit_step_result": "select result_summary ->> 'mark' from step_result",
    "request_user_review": "select summary from review",
    "submit_user_decision": "select feedback from review where feedback is not null",
    "submit_job_result": "select content from document",
}
STEPS: Final = """select id::text, plan_id::text, status, attempt, depends_on::text[]
                    from plan_step"""
JOBS: Final = """select id::text, run_id::text, step_key, status, attempt, completed_at
                   from job where counted"""
STAGE_STEPS: Final = """select run_id::text, step_key, total, done, opened_at, closed_at
                          from stage_step"""
AUDIT: Final = """select subject_id::text, seq, event, actor, session, details::text
                    from audit_entry
                   where subject in ('plan', 'run')
                   order by subject_id, seq"""


async def read_rows(cluster: Cluster) -> Rows:
    """Read the rows that the checkers need, as a superuser."""
    sql = cluster.sql
    rows = Rows(
        plans=dict(await sql("select id::text, status from plan")),
        runs=dict(await sql("select id::text, completed_at is not null from run")),
        # The stored form of a key is the key, `@`, and a hash of the user.
        answers={
            (tool, key.rpartition("@")[0])
            for tool, key in await sql("select tool, key from idempotency_answer")
        },
    )
    for step_id, plan_id, status, attempt, before in await sql(STEPS):
        rows.steps[step_id] = Step(
            plan_id=plan_id, status=status, attempt=attempt, depends_on=tuple(before or ())
        )
    for job_id, run_id, key, status, attempt, ended in await sql(JOBS):
        rows.jobs[job_id] = Job(
            run_id=run_id, step_key=key, status=status, attempt=attempt, completed_at=ended
        )
    for run_id, key, total, done, opened, closed in await sql(STAGE_STEPS):
        rows.stage_steps[run_id, key] = StageStep(
            total=total, done=done, opened_at=opened, closed_at=closed
        )
    rows.audit = [
        Entry(
            subject_id=row[0],
            seq=row[1],
            event=row[2],
            actor=row[3],
            session=row[4],
            details=slim(json.loads(row[5])),
        )
        for row in await sql(AUDIT)
    ]
    for tool, text in MARKED.items():
        _count(rows.effects, tool, (row[0] for row in await sql(text)))
    _count(rows.effects, "modify_plan", _rationales(rows.audit))
    _count(rows.effects, "fail_job", _job_errors(rows.audit))
    return rows


def slim(details: Body) -> Body:
    """Return only the details of an audit entry that the checkers read, to save memory."""
    changes = [
        {**change, "from": None, "to": _slim_row(change["to"])}
        for change in (change.as_json() for change in changes_of(details))
        if change["entity"] in WORK and change["field"] in READ_FIELDS
    ]
    return {**{name: details[name] for name in READ_DETAILS if name in details}, "changes": changes}


def _slim_row(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: value[name] for name in READ_FIELDS if name in value}
    return value


def _count(effects: Counter[tuple[str, str]], tool: str, texts: Iterable[object]) -> None:
    for text in texts:
        for mark in set(MARK.findall(str(text))):
            effects[tool, mark] += 1


def _rationales(audit: Iterable[Entry]) -> Iterable[object]:
    return (entry.details.get("rationale") for entry in audit if "rationale" in entry.details)


def _job_errors(audit: Iterable[Entry]) -> Iterable[object]:
    """Yield the errors of failed jobs from the audit."""
    for entry in audit:
        if entry.event == "step_failed" and "jobId" in entry.details:
            yield entry.details.get("error")
