"""Reading what the page of a plan and the page of a step show beside the plan itself."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from waybook.plan.model import Condition, Review
from waybook.plan.states import StepStatus
from waybook.record.moment import Json
from waybook.store.plans import read_condition, read_review
from waybook.store.sql import Ids, Statement, load

SQL = load("sheets")

#: How much of a text is shown where only its beginning is.
WORDS = 300
NAME = 200
#: How many entries of a history are looked through for the moves of steps.
MOST_ENTRIES = 5_000
MOST_REVIEWS = 50
MOST_SOURCES = 200


class Happening(NamedTuple):
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
    said: str | None
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


class StepMove(NamedTuple):
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
        happenings_statement(plan_id, None, happenings),
        SQL["research"](plan_id=plan_id, most=research),
        SQL["added"](plan_id=plan_id),
    ]


def happenings_statement(plan_id: str, step_id: str | None, most: int) -> Statement:
    """The last things that happened to a plan, or to one of its steps."""
    return SQL["happenings"](plan_id=plan_id, step_id=step_id, words=WORDS, most=most)


def names_statement(step_ids: Iterable[str]) -> Statement:
    """How the instructions of these steps begin."""
    return SQL["names"](ids=Ids(step_ids), most=NAME)


def moves_statement(plan_id: str, step_ids: Iterable[str]) -> Statement:
    """When these steps went into which status."""
    return SQL["moves_of"](plan_id=plan_id, ids=Ids(step_ids), most=MOST_ENTRIES)


def step_statements(plan_id: str, step_id: str) -> list[Statement]:
    """What the page of a step shows beside it."""
    named = {"plan_id": plan_id, "step_id": step_id}
    return [
        SQL["result"](step_id=step_id),
        SQL["conditions_about"](**named),
        SQL["reviews_of"](**named, most=MOST_REVIEWS),
        SQL["sources_of"](**named, words=WORDS, most=MOST_SOURCES),
        moves_statement(plan_id, [step_id]),
    ]


def output_texts_statement(plan_id: str) -> Statement:
    """The outputs of a plan, whole."""
    return SQL["output_texts"](plan_id=plan_id)


def read_happenings(rows: Iterable[tuple[Any, ...]]) -> list[Happening]:
    """What happened, in UTC."""
    found = (Happening(*row) for row in rows)
    return [one._replace(at=one.at.astimezone(UTC)) for one in found]


def read_research(rows: Iterable[tuple[Any, ...]]) -> list[Research]:
    """The artifacts that were found."""
    return [Research(*row[:-1]) for row in rows]


def read_names(rows: Iterable[tuple[Any, ...]]) -> Mapping[str, str]:
    """The first line of each step's instructions."""
    return {step_id: text.strip().split("\n", 1)[0] for step_id, text in rows}


def read_moves(rows: Iterable[tuple[Any, ...]]) -> list[StepMove]:
    """The moves that were found, oldest first."""
    return [
        StepMove(step_id, at.astimezone(UTC), StepStatus(status), actor, session)
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
