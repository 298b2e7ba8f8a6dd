"""Notices until they are delivered: written with what they tell of, claimed, noted, forgotten."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from waybook.core.events import Notification
from waybook.json_values import Json
from waybook.notifications.message import (
    MAX_DELIVERY_TIME,
    DeliveryOutcome,
    DeliveryStatus,
    RetryDecision,
    WebhookMessage,
)
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import AsJson, Statement, load

SQL = load("deliveries")

#: For how long what is settled is kept.
RETENTION_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notice and how its delivery stands, for a person."""

    id: str
    event: str
    subject_id: str | None
    data: dict[str, Json]
    status: DeliveryStatus
    attempt: int
    at: datetime
    #: When it is tried next, while it waits.
    due_at: datetime
    settled_at: datetime | None
    #: The status of the last answer, and what went wrong.
    answered: int | None
    fault: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """How all deliveries of an org stand."""

    waiting: int
    given_up: int
    oldest_waiting_at: datetime | None
    last_delivered_at: datetime | None


def insert_statement(letter_id: str, notification: Notification, now: datetime) -> Statement:
    """Keep a notice, under its id, until it is delivered."""
    return SQL["insert_delivery"](
        id=letter_id,
        event=notification.kind,
        subject_id=notification.subject_id or None,
        data=AsJson(notification.data),
        at=now,
        expires_at=now + MAX_DELIVERY_TIME,
    )


def claim_statement(most: int, lease: timedelta) -> Statement:
    """Take some that are due."""
    return SQL["claim"](most=most, lease=lease.total_seconds())


def read_claimed(rows: list[tuple[Any, ...]]) -> list[WebhookMessage]:
    """The letters that were claimed."""
    return [
        WebhookMessage(
            id=i, event=event, data=data, at=at, now=now, attempt=attempt, expires_at=expires
        )
        for i, event, data, at, now, attempt, expires in rows
    ]


def outcome_statements(
    letter: WebhookMessage, outcome: DeliveryOutcome, found: RetryDecision
) -> list[Statement]:
    """Note what came of an attempt, and forget what is long settled."""
    noted = SQL["record_outcome"](
        id=letter.id,
        attempt=letter.attempt,
        status=found.status,
        due_at=found.due_at,
        answered=outcome.status,
        fault=outcome.error,
    )
    return [noted, SQL["unindex"](days=RETENTION_DAYS)]


def latest_statement(most: int, letter_id: str | None = None) -> Statement:
    """The last ones, or one of them."""
    return SQL["latest"](most=most, id=letter_id)


def read_latest(rows: list[tuple[Any, ...]]) -> list[Delivery]:
    """What was found of them."""
    found = (dict(zip(Delivery.__slots__, row, strict=True)) for row in rows)
    return [Delivery(**{**one, "status": DeliveryStatus(one["status"])}) for one in found]


def retry_statement(letter_id: str) -> Statement:
    """Deliver it as if it had never been tried."""
    return SQL["retry_delivery"](id=letter_id, patience=MAX_DELIVERY_TIME.total_seconds())


def counts_statement() -> Statement:
    """Count them."""
    return SQL["delivery_counts"]()


def read_counts(found: Results) -> Deliveries:
    """What was counted."""
    ((row,),) = found
    return Deliveries(**dict(zip(Deliveries.__slots__, row, strict=True)))
