"""Notification outbox: messages written with the change they report, claimed, sent and settled."""

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

#: Retention of settled deliveries.
RETENTION_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notification and the status of its delivery, as shown to users."""

    id: str
    event: str
    subject_id: str | None
    data: dict[str, Json]
    status: DeliveryStatus
    attempt: int
    at: datetime
    #: Time of the next attempt, while it is waiting.
    due_at: datetime
    settled_at: datetime | None
    #: HTTP status of the last response, and the error, if any.
    answered: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """Delivery counts and times of an org."""

    waiting: int
    given_up: int
    oldest_waiting_at: datetime | None
    last_delivered_at: datetime | None


def insert_statement(message_id: str, notification: Notification, now: datetime) -> Statement:
    """Insert a notification under its id, to be delivered."""
    return SQL["insert_delivery"](
        id=message_id,
        event=notification.kind,
        subject_id=notification.subject_id or None,
        data=AsJson(notification.data),
        at=now,
        expires_at=now + MAX_DELIVERY_TIME,
    )


def claim_statement(most: int, lease: timedelta) -> Statement:
    """Claim some deliveries that are due."""
    return SQL["claim"](most=most, lease=lease.total_seconds())


def read_claimed(rows: list[tuple[Any, ...]]) -> list[WebhookMessage]:
    """Return the claimed messages."""
    return [
        WebhookMessage(
            id=i, event=event, data=data, at=at, now=now, attempt=attempt, expires_at=expires
        )
        for i, event, data, at, now, attempt, expires in rows
    ]


def outcome_statements(
    message: WebhookMessage, outcome: DeliveryOutcome, decision: RetryDecision
) -> list[Statement]:
    """Record the outcome of an attempt, and delete deliveries settled long ago."""
    noted = SQL["record_outcome"](
        id=message.id,
        attempt=message.attempt,
        status=decision.status,
        due_at=decision.due_at,
        answered=outcome.status,
        fault=outcome.error,
    )
    return [noted, SQL["unindex"](days=RETENTION_DAYS)]


def latest_statement(most: int, message_id: str | None = None) -> Statement:
    """Select the latest deliveries, or only the one with this id."""
    return SQL["latest"](most=most, id=message_id)


def read_latest(rows: list[tuple[Any, ...]]) -> list[Delivery]:
    """Return the selected deliveries."""
    records = (dict(zip(Delivery.__slots__, row, strict=True)) for row in rows)
    return [
        Delivery(**{**record, "status": DeliveryStatus(record["status"])}) for record in records
    ]


def retry_statement(message_id: str) -> Statement:
    """Reset a delivery, so that it is sent as if it had never been tried."""
    return SQL["retry_delivery"](id=message_id, patience=MAX_DELIVERY_TIME.total_seconds())


def counts_statement() -> Statement:
    """Count the deliveries of the org by status."""
    return SQL["delivery_counts"]()


def read_counts(results: Results) -> Deliveries:
    """Return the counts."""
    ((row,),) = results
    return Deliveries(**dict(zip(Deliveries.__slots__, row, strict=True)))
