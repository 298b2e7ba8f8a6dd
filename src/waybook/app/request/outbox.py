"""Stores a notification in the same transaction as the change that it reports."""

from collections.abc import Iterable
from typing import Final

from waybook.accounts.model import hash_token
from waybook.app.request.caller import Caller, plan_url, review_url, run_url
from waybook.app.request.services import Services
from waybook.core.events import Notification, NotificationKind
from waybook.json_values import Body
from waybook.plan.model import Plan
from waybook.plan.progress import plan_notifications
from waybook.run.model import CompiledDag, Run
from waybook.run.status import run_notifications
from waybook.store import deliveries, links
from waybook.store.audit import WriteContext
from waybook.store.driver.queries import Statement, new_uuid
from waybook.store.links import LinkGrant, LinkKind, LinkTarget

_REVIEW_KINDS: Final = frozenset(
    {NotificationKind.REVIEW_REQUESTED, NotificationKind.REVIEW_OVERDUE}
)


def plan_notification_statements(
    services: Services, caller: Caller, before: Plan, after: Plan, write_context: WriteContext
) -> list[Statement]:
    if not services.notification_events:
        return []
    return _statements(services, caller, plan_notifications(before, after), write_context)


def run_notification_statements(
    services: Services,
    caller: Caller,
    before: Run | None,
    after: Run,
    compiled_dag: CompiledDag,
    write_context: WriteContext,
) -> list[Statement]:
    if not services.notification_events:
        return []
    return _statements(
        services, caller, run_notifications(before, after, compiled_dag), write_context
    )


def notification_statement(
    services: Services,
    caller: Caller,
    notification: Notification,
    write_context: WriteContext,
    *,
    notification_id: str | None = None,
) -> tuple[str, Statement]:
    """Return the id of a new notification, and the statement that stores it."""
    notification_id, actor = notification_id or new_uuid(), write_context.actor
    place, subject = services.base_url, notification.subject_id
    data: Body = {
        "orgId": str(caller.org_id),
        "by": {"user": actor.user, "channel": str(actor.channel)},
    }
    if notification.kind in _REVIEW_KINDS:
        data["reviewUrl"] = review_url(subject, place)
    subject_url = plan_url if notification.kind.startswith("plan.") else run_url
    data["url"] = subject_url(subject, place) if subject else place
    data |= notification.data
    statement = deliveries.insert_statement(
        notification_id, notification._replace(data=data), write_context.now
    )
    return notification_id, statement


def _statements(
    services: Services, caller: Caller, notices: Iterable[Notification], write_context: WriteContext
) -> list[Statement]:
    statements: list[Statement] = []
    for notice in notices:
        if notice.kind in services.notification_events:
            notice_id, statement = notification_statement(services, caller, notice, write_context)
            statements += [statement, *link_statements(services, notice, notice_id, write_context)]
    return statements


def link_statements(
    services: Services, notification: Notification, notification_id: str, context: WriteContext
) -> list[Statement]:
    configured, target = services.action_links, _link_target(notification)
    if configured is None or target is None:
        return []
    grant = LinkGrant(
        for_user=configured.reviewer,
        needs_account=configured.needs_account,
        now=context.now,
        expires_at=context.now + configured.lifetime,
    )
    secret_hash = hash_token(configured.secret(notification_id))
    return links.insert_action_link(notification_id, secret_hash, target, grant)


def _link_target(notification: Notification) -> LinkTarget | None:
    subject_id, data = notification.subject_id, notification.data
    if notification.kind is NotificationKind.AWAITING_FEEDBACK:
        return LinkTarget(LinkKind.FEEDBACK, run_id=subject_id, stage=str(data["stageSlug"]))
    review = data.get("review")
    if not isinstance(review, dict):
        return None
    return LinkTarget(LinkKind.REVIEW, plan_id=subject_id, review_id=str(review["reviewId"]))
