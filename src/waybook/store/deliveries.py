"""Stores notifications, which are sent later.

A notification is stored in the same transaction as the change that it reports.
"""

from datetime import datetime
from typing import NamedTuple

from waybook.core.events import Notification
from waybook.notifications.delivery import (
    MAX_DELIVERY_TIME,
    DeliveryOutcome,
    DeliveryStatus,
    WebhookMessage,
)
from waybook.store.driver.queries import AsJson, Row, Statement, load


class WorkCount(NamedTuple):
    """Counts of an org's unfinished work and deliveries. Each count stops at 1,000."""

    steps: int = 0
    jobs: int = 0
    documents: int = 0
    deliveries: int = 0
    failed_deliveries: int = 0
    #: Number of webhook messages that should have been sent, but that no process has tried to send.
    overdue_deliveries: int = 0
    #: Workers by state.
    working: int = 0
    sleeping: int = 0
    parked: int = 0
    draining: int = 0


SQL = load("deliveries", claim=WebhookMessage, count_work=WorkCount)


def insert_statement(message_id: str, notification: Notification, now: datetime) -> Statement:
    return SQL["insert_delivery"](
        id=message_id,
        event=notification.kind,
        subject_id=notification.subject_id or None,
        data=AsJson(notification.data),
        at=now,
        expires_at=now + MAX_DELIVERY_TIME,
    )


def outcome_statements(
    message: WebhookMessage, outcome: DeliveryOutcome, status: DeliveryStatus, due_at: datetime
) -> list[Statement]:
    """Record the outcome of a try to deliver a message, and delete old deliveries."""
    noted = SQL["record_outcome"](
        id=message.id,
        attempt=message.attempt,
        status=status,
        due_at=due_at,
        answered=outcome.status,
        fault=outcome.error,
    )
    return [noted, SQL["unindex"]()]


def read_latest(rows: list[Row]) -> list[Row]:
    return [row._replace(status=DeliveryStatus(row.status)) for row in rows]
