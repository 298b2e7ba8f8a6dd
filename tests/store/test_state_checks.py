"""Check constraints, which accept exactly the rows that the states of plans and runs allow."""

from collections.abc import Callable
from itertools import product

import psycopg
import pytest

from waybook.core.changes import Event
from waybook.dag.model import JobStatus, JobType
from waybook.plan.model import PlanStatus, StepStatus

NUMBERS = (None, -1, 0, 1, 2)
TIMES = (None, "2026-01-01T00:00:00Z")
UNKNOWN = "unknown"
#: Booleans, as PostgreSQL writes them, that say whether a job has a unit (its part of a step).
PRESENT, ABSENT = "true", "false"

COMPLETED_PLAN = {PlanStatus.COMPLETED, PlanStatus.FAILED}
COMPLETED_STEP = {StepStatus.COMPLETED, StepStatus.SKIPPED}
COMPLETED_JOB = {
    JobStatus.COMPLETED,
    JobStatus.FAILED,
    JobStatus.RETRY_LOOP_FAILED,
    JobStatus.SUPERSEDED,
}


def at_least(bound: int, *numbers: int | None) -> bool:
    return all(number is None or number >= bound for number in numbers)


def is_plan(status: str, completed_at: str | None) -> bool:
    return status in {*PlanStatus} and (completed_at is not None) == (status in COMPLETED_PLAN)


def is_step(
    order: int | None,
    attempt: int | None,
    max_attempts: int | None,
    silent_holders: int | None,
    status: str,
    in_progress_since: str | None,
    completed_at: str | None,
) -> bool:
    return (
        at_least(1, order, attempt, max_attempts, silent_holders)
        and status in {*StepStatus}
        and (completed_at is not None) == (status in COMPLETED_STEP)
        and (status != StepStatus.IN_PROGRESS or in_progress_since is not None)
    )


def is_job(
    attempt: int | None,
    tries: int | None,
    part: int | None,
    job_type: str,
    unit: str,
    status: str,
    completed_at: str | None,
) -> bool:
    return (
        at_least(0, attempt, tries)
        and at_least(1, part)
        and job_type in {*JobType}
        and (unit == PRESENT) == (job_type != JobType.RENDER)
        and status in {*JobStatus}
        and (completed_at is not None) == (status in COMPLETED_JOB)
    )


def is_event(event: str) -> bool:
    return event in {*Event}


CHECKS: dict[str, tuple[Callable[..., bool], str, tuple[tuple[object, ...], ...]]] = {
    "plan": (is_plan, "text, timestamptz", ((*PlanStatus, UNKNOWN), TIMES)),
    "step": (
        is_step,
        "int, int, smallint, smallint, text, timestamptz, timestamptz",
        ((0, 1), (0, 1), NUMBERS, NUMBERS, (*StepStatus, UNKNOWN), TIMES, TIMES),
    ),
    "job": (
        is_job,
        "int, int, int, text, boolean, text, timestamptz",
        (
            NUMBERS[1:],
            NUMBERS[1:],
            NUMBERS,
            (*JobType, UNKNOWN),
            (PRESENT, ABSENT),
            (*JobStatus, UNKNOWN),
            TIMES,
        ),
    ),
    "event": (is_event, "text", ((*Event, UNKNOWN),)),
}


@pytest.mark.parametrize("check", CHECKS)
def test_check_constraint_accepts_exactly_the_allowed_value_combinations(
    catalog: psycopg.Connection, check: str
) -> None:
    allows, types, values = CHECKS[check]
    arguments = ", ".join(f"%s::{name}" for name in types.split(", "))
    with catalog.pipeline(), catalog.cursor() as cursor:
        combinations = list(product(*values))
        cursor.executemany(
            f"select app_is_{check}({arguments})".encode(), combinations, returning=True
        )
        accepted = [cursor.fetchone()]
        while cursor.nextset():
            accepted.append(cursor.fetchone())
    assert accepted == [(allows(*combination),) for combination in combinations]


@pytest.mark.parametrize(
    ("table", "constraint"),
    [
        ("plan", "plan_state"),
        ("plan_step", "plan_step_state"),
        ("job", "job_state"),
        ("audit_entry", "audit_entry_event"),
    ],
)
def test_check_constraint_exists_on_table_and_all_partitions(
    catalog: psycopg.Connection, table: str, constraint: str
) -> None:
    checked = catalog.execute(
        """select t.oid::regclass::text,
                  exists (select from pg_constraint c
                           where c.conrelid = t.oid and c.contype = 'c' and c.conname = %s)
             from pg_class t
            where t.oid = %s::text::regclass
               or t.oid in (select inhrelid from pg_inherits
                             where inhparent = %s::text::regclass)""",
        (constraint, table, table),
    ).fetchall()
    assert (table, True) in checked
    assert [name for name, exists in checked if not exists] == []
