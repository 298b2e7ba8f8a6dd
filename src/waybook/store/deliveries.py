"""Notification outbox: a message is stored with the change that it reports, and sent later."""

from datetime import datetime, timedelta
from typing import NamedTuple

from waybook.core.events import Notification
from waybook.notifications.message import (
    MAX_DELIVERY_TIME,
    Deliveries,
    Delivery,
    DeliveryOutcome,
    DeliveryStatus,
    RetryDecision,
    WebhookMessage,
)
from waybook.store.driver.queries import AsJson, Statement, load

#: Number of days for which deliveries are kept after they have succeeded or were abandoned.
RETENTION_DAYS = 30


#: Number of days after its deadline in which a review still gets a reminder. It is shorter than
#: `RETENTION_DAYS`, so that the stored reminder prevents a second one.
REMINDER_DAYS = 7


class OverdueReview(NamedTuple):
    """Open review that needs a reminder, with the id of the reminder."""

    review_id: str
    plan_id: str
    reminder_id: str
    due_at: datetime


SQL = load(
    "deliveries",
    claim=WebhookMessage,
    latest=Delivery,
    delivery_counts=Deliveries,
    overdue_reviews=OverdueReview,
)


def overdue_statement(patience: timedelta, most: int) -> Statement:
    """Select open reviews that have waited for longer than `patience` and have no reminder."""
    return SQL["overdue_reviews"](patience=patience.total_seconds(), days=REMINDER_DAYS, most=most)


def insert_statement(message_id: str, notification: Notification, now: datetime) -> Statement:
    """Insert a notification with this id into the outbox, from which it is delivered."""
    return SQL["insert_delivery"](
        id=message_id,
        event=notification.kind,
        subject_id=notification.subject_id or None,
        data=AsJson(notification.data),
        at=now,
        expires_at=now + MAX_DELIVERY_TIME,
    )


def claim_statement(most: int, lease: timedelta) -> Statement:
    """Claim at most `most` webhook deliveries that are due."""
    return SQL["claim"](most=most, lease=lease.total_seconds())


def outcome_statements(
    message: WebhookMessage, outcome: DeliveryOutcome, decision: RetryDecision
) -> list[Statement]:
    """Record the outcome of a delivery attempt, and delete deliveries that ended long ago."""
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
    """Select the latest webhook deliveries, or only the delivery with this id."""
    return SQL["latest"](most=most, id=message_id)


def read_latest(rows: list[Delivery]) -> list[Delivery]:
    """Convert the selected rows to webhook deliveries."""
    return [row._replace(status=DeliveryStatus(row.status)) for row in rows]


def retry_statement(message_id: str) -> Statement:
    """Reset a webhook delivery to be sent again, as if it had never been tried."""
    return SQL["retry_delivery"](id=message_id, patience=MAX_DELIVERY_TIME.total_seconds())


def counts_statement() -> Statement:
    """Count the org's webhook deliveries by status."""
    return SQL["delivery_counts"]()
