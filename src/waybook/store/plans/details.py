"""Queries for the pages of a plan, a step and an output."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from waybook.json_values import Json
from waybook.plan.model import MAX_OUTPUTS, Condition, Review
from waybook.plan.output import Output
from waybook.plan.states import StepStatus
from waybook.store.driver.queries import Ids, Statement, load
from waybook.store.plans.load import read_condition, read_review

SQL = load("plans/details")

#: Length of an excerpt.
EXCERPT_LENGTH = 300
NAME = 200
#: Maximum number of audit entries searched for status changes of steps.
MAX_ENTRIES = 5_000
MAX_REVIEWS = 50
MAX_SOURCES = 200


class HistoryEntry(NamedTuple):
    """Summary of an audit entry."""

    seq: int
    at: datetime
    event: str
    actor: str
    channel: str
    session: str | None
    action: str | None
    step_order: int | None
    decision: str | None
    comment: str | None
    #: Outcomes of the conditions evaluated when a step completed.
    branches: list[dict[str, Json]] | None


class Research(NamedTuple):
    """List item for an artifact."""

    id: str
    step_id: str | None
    kind: str
    title: str
    version: int | None
    superseded: bool
    created_at: datetime
    created_by: str
    sources: int


class Source(NamedTuple):
    """Source of an artifact."""

    artifact_id: str
    title: str
    url: str | None
    quote: str | None


class StepStatusChange(NamedTuple):
    """Status change of a step, with its actor."""

    step_id: str
    at: datetime
    status: StepStatus
    actor: str
    session: str | None


class Result(NamedTuple):
    """Result of a step."""

    summary: Json
    confidence: float | None
    report: Json
    formatting_notes: str | None


def plan_statements(plan_id: str, *, happenings: int, research: int) -> list[Statement]:
    """Select the history, the research and the number of added steps of a plan."""
    return [
        history_statement(plan_id, None, happenings),
        SQL["research"](plan_id=plan_id, most=research),
        SQL["added"](plan_id=plan_id),
    ]


def history_statement(plan_id: str, step_id: str | None, most: int) -> Statement:
    """Select the latest history entries of a plan, or of one of its steps."""
    return SQL["history"](plan_id=plan_id, step_id=step_id, words=EXCERPT_LENGTH, most=most)


def names_statement(step_ids: Iterable[str]) -> Statement:
    """Select the start of the instructions of these steps."""
    return SQL["names"](ids=Ids(step_ids), most=NAME)


def status_changes_statement(plan_id: str, step_ids: Iterable[str]) -> Statement:
    """Select the status changes of these steps."""
    return SQL["step_status_changes"](plan_id=plan_id, ids=Ids(step_ids), most=MAX_ENTRIES)


def step_statements(plan_id: str, step_id: str) -> list[Statement]:
    """Select result, conditions, reviews, sources and status changes of a step."""
    named = {"plan_id": plan_id, "step_id": step_id}
    return [
        SQL["result"](step_id=step_id),
        SQL["conditions_about"](**named),
        SQL["reviews_of"](**named, most=MAX_REVIEWS),
        SQL["sources_of"](**named, words=EXCERPT_LENGTH, most=MAX_SOURCES),
        status_changes_statement(plan_id, [step_id]),
    ]


def output_texts_statement(plan_id: str) -> Statement:
    """Select the outputs of a plan with their full texts."""
    return SQL["output_texts"](plan_id=plan_id)


def read_history(rows: Iterable[tuple[Any, ...]]) -> list[HistoryEntry]:
    """Return the selected history entries, with times in UTC."""
    entries = (HistoryEntry(*row) for row in rows)
    return [entry._replace(at=entry.at.astimezone(UTC)) for entry in entries]


def read_research(rows: Iterable[tuple[Any, ...]]) -> list[Research]:
    """Return the selected artifacts."""
    return [Research(*row[:-1]) for row in rows]


def read_names(rows: Iterable[tuple[Any, ...]]) -> Mapping[str, str]:
    """Return the first line of each step's instructions."""
    return {step_id: text.strip().split("\n", 1)[0] for step_id, text in rows}


def read_status_changes(rows: Iterable[tuple[Any, ...]]) -> list[StepStatusChange]:
    """Return the selected status changes, oldest first."""
    return [
        StepStatusChange(step_id, at.astimezone(UTC), StepStatus(status), actor, session)
        for at, actor, session, moves in rows
        for step_id, status in moves
    ]


def read_result(rows: list[tuple[Any, ...]]) -> Result | None:
    """Return the selected result, if any."""
    return Result(*rows[0]) if rows else None


def read_conditions(rows: Iterable[tuple[Any, ...]]) -> list[Condition]:
    return [read_condition(row) for row in rows]


def read_reviews(rows: Iterable[tuple[Any, ...]]) -> list[Review]:
    reviews = (read_review([row]) for row in rows)
    return [review for review in reviews if review is not None]


def read_sources(rows: Iterable[tuple[Any, ...]]) -> list[Source]:
    return [Source(*row) for row in rows]


def outputs_statement(plan_id: str) -> Statement:
    """Select the outputs of a plan, with all their versions."""
    return SQL["outputs"](plan_id=plan_id, most=MAX_OUTPUTS)


def output_statement(output_id: str) -> Statement:
    """Select one output with its text."""
    return SQL["output"](id=output_id)


def latest_statement(before: tuple[str, str], most: int) -> Statement:
    """Select the latest version of each output of the org, after the one with this time and id."""
    return SQL["latest_outputs"](at=before[0], id=before[1], most=most)


def read_outputs(rows: Iterable[tuple[Any, ...]]) -> list[Output]:
    """Return the selected outputs."""
    return [
        Output(
            id=row[0],
            title=row[1],
            media_type=row[2],
            version=row[3],
            content_hash=row[4],
            created_at=row[5].astimezone(UTC),
            created_by=row[6],
        )
        for row in rows
    ]
