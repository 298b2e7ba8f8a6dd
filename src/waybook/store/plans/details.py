"""Queries for the web pages of a plan, a step and an output."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from waybook.json_values import Json
from waybook.plan.model import MAX_OUTPUTS, Output, Review, StepStatus
from waybook.store.driver.queries import Ids, Statement, load

EXCERPT_LENGTH = 300
NAME = 200
MAX_ENTRIES = 5_000
_MAX_REVIEWS = 50
MAX_SOURCES = 200


class HistoryEntry(NamedTuple):
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
    branches: list[dict[str, Json]] | None


class Research(NamedTuple):
    id: str
    step_id: str | None
    kind: str
    title: str
    version: int | None
    superseded: bool
    created_at: datetime
    created_by: str
    sources: int
    total: int = 0


class StepStatusChange(NamedTuple):
    step_id: str
    at: datetime
    status: StepStatus
    actor: str
    session: str | None


MAX_RESULT_LENGTH = 200_000
MAX_ARTIFACTS = 5


SQL = load(
    "plans/details",
    history=HistoryEntry,
    research=Research,
    reviews_of=Review,
    outputs=Output,
    output=(Output, "output plan_id content"),
    latest_outputs=(Output, "output plan_id plan_name"),
)


def history_statement(plan_id: str, step_id: str | None, most: int) -> Statement:
    return SQL["history"](plan_id=plan_id, step_id=step_id, words=EXCERPT_LENGTH, most=most)


def names_statement(step_ids: Iterable[str], *, whole: bool = False) -> Statement:
    return SQL["names"](ids=Ids(step_ids), most=None if whole else NAME)


def status_changes_statement(
    plan_id: str, step_ids: Iterable[str] | None, *, since: int = 0
) -> Statement:
    ids, most = (None, None) if step_ids is None else (Ids(step_ids), MAX_ENTRIES)
    return SQL["step_status_changes"](plan_id=plan_id, ids=ids, since=since, most=most)


def step_statements(plan_id: str, step_id: str) -> list[Statement]:
    named = {"plan_id": plan_id, "step_id": step_id}
    return [
        SQL["result"](step_id=step_id),
        SQL["conditions_about"](**named),
        SQL["reviews_of"](**named, most=_MAX_REVIEWS),
        SQL["sources_of"](**named, words=EXCERPT_LENGTH, most=MAX_SOURCES),
        status_changes_statement(plan_id, [step_id]),
    ]


def read_names(rows: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    return {step_id: beginning.strip().split("\n", 1)[0] for step_id, beginning in rows}


def read_status_changes(rows: Iterable[tuple[Any, ...]]) -> list[StepStatusChange]:
    return [
        StepStatusChange(step_id, at, StepStatus(status), actor, session)
        for at, actor, session, moves in rows
        for step_id, status in moves
    ]


def outputs_statement(plan_id: str) -> Statement:
    return SQL["outputs"](plan_id=plan_id, most=MAX_OUTPUTS)


def latest_statement(before: tuple[str, str], most: int) -> Statement:
    return SQL["latest_outputs"](at=before[0], id=before[1], most=most)
