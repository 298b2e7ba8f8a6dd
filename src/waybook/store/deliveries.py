"""Stores notifications, which are sent later.

A notification is stored in the same transaction as the change that it reports.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from waybook.core.events import Notification
from waybook.notifications.delivery import (
    MAX_DELIVERY_TIME,
    Deliveries,
    Delivery,
    DeliveryOutcome,
    DeliveryStatus,
    RetryDecision,
    WebhookMessage,
)
from waybook.store.driver.queries import AsJson, Statement, load

_RETENTION_DAYS = 30
#: Seconds after which a delivery counts as overdue if no process has tried it.
_OVERDUE_SECONDS = 120
#: A review that is overdue for more days than this gets no reminder.
_REMINDER_DAYS = 7


class OverdueReview(NamedTuple):
    review_id: str
    plan_id: str
    reminder_id: str
    due_at: datetime


MAX_COUNTED = 1_000
_MAX_PLANS = 1_000


class WorkCount(NamedTuple):
    """Counts of an org's unfinished work and deliveries. Each count stops at `MAX_COUNTED`."""

    steps: int = 0
    jobs: int = 0
    documents: int = 0
    deliveries: int = 0
    failed_deliveries: int = 0
    #: Webhook messages that are due, but that no process has tried to send.
    overdue_deliveries: int = 0


SQL = load(
    "deliveries",
    claim=WebhookMessage,
    latest=Delivery,
    delivery_counts=Deliveries,
    overdue_reviews=OverdueReview,
    count_work=WorkCount,
)


def overdue_statement(patience: timedelta, most: int) -> Statement:
    return SQL["overdue_reviews"](patience=patience.total_seconds(), days=_REMINDER_DAYS, most=most)


def insert_statement(message_id: str, notification: Notification, now: datetime) -> Statement:
    return SQL["insert_delivery"](
        id=message_id,
        event=notification.kind,
        subject_id=notification.subject_id or None,
        data=AsJson(notification.data),
        at=now,
        expires_at=now + MAX_DELIVERY_TIME,
    )


def claim_statement(most: int, lease: timedelta) -> Statement:
    return SQL["claim"](most=most, lease=lease.total_seconds())


def outcome_statements(
    message: WebhookMessage, outcome: DeliveryOutcome, decision: RetryDecision
) -> list[Statement]:
    """Record the outcome of a delivery attempt, and delete old deliveries."""
    noted = SQL["record_outcome"](
        id=message.id,
        attempt=message.attempt,
        status=decision.status,
        due_at=decision.due_at,
        answered=outcome.status,
        fault=outcome.error,
    )
    return [noted, SQL["unindex"](days=_RETENTION_DAYS)]


def read_latest(rows: list[Delivery]) -> list[Delivery]:
    return [row._replace(status=DeliveryStatus(row.status)) for row in rows]


def retry_statement(message_id: str) -> Statement:
    return SQL["retry_delivery"](id=message_id, patience=MAX_DELIVERY_TIME.total_seconds())


def counts_statement() -> Statement:
    return SQL["delivery_counts"](overdue=_OVERDUE_SECONDS)


def work_count_statement() -> Statement:
    return SQL["count_work"](most=MAX_COUNTED, plans=_MAX_PLANS, overdue=_OVERDUE_SECONDS)
