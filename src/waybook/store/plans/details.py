"""Reading what the page of a plan and the page of a step show beside the plan itself.

Reading outputs: those of a plan without their texts, or one with its text.
"""

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

#: How much of a text is shown where only its beginning is.
EXCERPT_LENGTH = 300
NAME = 200
#: How many entries of a history are looked through for the moves of steps.
MAX_ENTRIES = 5_000
MAX_REVIEWS = 50
MAX_SOURCES = 200


class HistoryEntry(NamedTuple):
    """An audit entry in a few words."""

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
    #: What its conditions came to, where a step completed.
    branches: list[dict[str, Json]] | None


class Research(NamedTuple):
    """An artifact in a list."""

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
    """What an artifact came from."""

    artifact_id: str
    title: str
    url: str | None
    quote: str | None


class StepStatusChange(NamedTuple):
    """A step went into a status, by whose hand."""

    step_id: str
    at: datetime
    status: StepStatus
    actor: str
    session: str | None


class Result(NamedTuple):
    """What a step brought."""

    summary: Json
    confidence: float | None
    report: Json
    formatting_notes: str | None


def plan_statements(plan_id: str, *, happenings: int, research: int) -> list[Statement]:
    """What the page of a plan shows beside it: history, research, and how it grew."""
    return [
        history_statement(plan_id, None, happenings),
        SQL["research"](plan_id=plan_id, most=research),
        SQL["added"](plan_id=plan_id),
    ]


def history_statement(plan_id: str, step_id: str | None, most: int) -> Statement:
    """The last things that happened to a plan, or to one of its steps."""
    return SQL["history"](plan_id=plan_id, step_id=step_id, words=EXCERPT_LENGTH, most=most)


def names_statement(step_ids: Iterable[str]) -> Statement:
    """How the instructions of these steps begin."""
    return SQL["names"](ids=Ids(step_ids), most=NAME)


def status_changes_statement(plan_id: str, step_ids: Iterable[str]) -> Statement:
    """When these steps went into which status."""
    return SQL["step_status_changes"](plan_id=plan_id, ids=Ids(step_ids), most=MAX_ENTRIES)


def step_statements(plan_id: str, step_id: str) -> list[Statement]:
    """What the page of a step shows beside it."""
    named = {"plan_id": plan_id, "step_id": step_id}
    return [
        SQL["result"](step_id=step_id),
        SQL["conditions_about"](**named),
        SQL["reviews_of"](**named, most=MAX_REVIEWS),
        SQL["sources_of"](**named, words=EXCERPT_LENGTH, most=MAX_SOURCES),
        status_changes_statement(plan_id, [step_id]),
    ]


def output_texts_statement(plan_id: str) -> Statement:
    """The outputs of a plan, whole."""
    return SQL["output_texts"](plan_id=plan_id)


def read_history(rows: Iterable[tuple[Any, ...]]) -> list[HistoryEntry]:
    """What happened, in UTC."""
    found = (HistoryEntry(*row) for row in rows)
    return [one._replace(at=one.at.astimezone(UTC)) for one in found]


def read_research(rows: Iterable[tuple[Any, ...]]) -> list[Research]:
    """The artifacts that were found."""
    return [Research(*row[:-1]) for row in rows]


def read_names(rows: Iterable[tuple[Any, ...]]) -> Mapping[str, str]:
    """The first line of each step's instructions."""
    return {step_id: text.strip().split("\n", 1)[0] for step_id, text in rows}


def read_status_changes(rows: Iterable[tuple[Any, ...]]) -> list[StepStatusChange]:
    """The moves that were found, oldest first."""
    return [
        StepStatusChange(step_id, at.astimezone(UTC), StepStatus(status), actor, session)
        for at, actor, session, moves in rows
        for step_id, status in moves
    ]


def read_result(rows: list[tuple[Any, ...]]) -> Result | None:
    """The result, if there is one."""
    return Result(*rows[0]) if rows else None


def read_conditions(rows: Iterable[tuple[Any, ...]]) -> list[Condition]:
    return [read_condition(row) for row in rows]


def read_reviews(rows: Iterable[tuple[Any, ...]]) -> list[Review]:
    found = (read_review([row]) for row in rows)
    return [review for review in found if review is not None]


def read_sources(rows: Iterable[tuple[Any, ...]]) -> list[Source]:
    return [Source(*row) for row in rows]


def outputs_statement(plan_id: str) -> Statement:
    """The outputs of a plan, with all their versions."""
    return SQL["outputs"](plan_id=plan_id, most=MAX_OUTPUTS)


def output_statement(output_id: str) -> Statement:
    """One output, with its text."""
    return SQL["output"](id=output_id)


def latest_statement(before: tuple[str, str], most: int) -> Statement:
    """The latest version of each output of the org, behind the one with this time and id."""
    return SQL["latest_outputs"](at=before[0], id=before[1], most=most)


def read_outputs(rows: Iterable[tuple[Any, ...]]) -> list[Output]:
    """The outputs these statements found."""
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
