"""Stores a notification in the same transaction as the change that it reports."""

from collections.abc import Iterable
from typing import Final

from waybook.accounts.model import hash_token
from waybook.app.request.caller import plan_url, review_url, run_url
from waybook.app.request.request_context import RequestContext
from waybook.core.agent_names import name_of
from waybook.core.events import Notification, NotificationKind
from waybook.json_values import Body
from waybook.store import deliveries, links
from waybook.store.audit import WriteContext
from waybook.store.driver.queries import Statement, new_uuid
from waybook.store.links import LinkKind

_REVIEW_KINDS: Final = frozenset(
    {NotificationKind.REVIEW_REQUESTED, NotificationKind.REVIEW_OVERDUE}
)


def notification_statements(
    ctx: RequestContext, notifications: Iterable[Notification], write_context: WriteContext
) -> list[Statement]:
    """Return the statements that store those notifications that the operator has enabled."""
    enabled = ctx.services.notification_events
    if not enabled:
        return []
    return [
        statement
        for notification in notifications
        if notification.kind in enabled
        for statement in store_notification(ctx, notification, new_uuid(), write_context)
    ]


def store_notification(
    ctx: RequestContext,
    notification: Notification,
    notification_id: str,
    write_context: WriteContext,
) -> list[Statement]:
    """Return the statements that store a notification and, if configured, its action links."""
    actor, base_url = write_context.actor, ctx.services.base_url
    subject_id = notification.subject_id
    data: Body = {
        "orgId": str(ctx.caller.org_id),
        "by": {
            "user": actor.user,
            "channel": str(actor.channel),
            "agent": name_of(None, actor.session, ctx.caller.client),
        },
    }
    if notification.kind in _REVIEW_KINDS:
        data["reviewUrl"] = review_url(subject_id, base_url)
    subject_url = plan_url if notification.kind.startswith("plan.") else run_url
    data["url"] = subject_url(subject_id, base_url) if subject_id else base_url
    data |= notification.data
    statement = deliveries.insert_statement(
        notification_id, notification._replace(data=data), write_context.now
    )
    configured, review = ctx.services.action_links, notification.data.get("review")
    if configured is None:
        return [statement]
    if notification.kind is NotificationKind.AWAITING_FEEDBACK:
        stage = str(notification.data["stageSlug"])
        target: Body = {"kind": LinkKind.FEEDBACK, "run_id": subject_id, "stage": stage}
    elif isinstance(review, dict):
        review_id = str(review["reviewId"])
        target = {"kind": LinkKind.REVIEW, "plan_id": subject_id, "review_id": review_id}
    else:
        return [statement]
    inserts = links.insert_action_link(
        target,
        id=notification_id,
        hash=hash_token(configured.secret(notification_id)),
        for_user=configured.reviewer,
        needs_account=configured.needs_account,
        now=write_context.now,
        expires_at=write_context.now + configured.lifetime,
    )
    return [statement, *inserts]
