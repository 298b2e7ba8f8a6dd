"""Authenticates callers who open a link with a secret instead of signing in."""

from typing import Final

from waybook.accounts.model import LOCAL_ORG
from waybook.app.accounts.lookup import find_by_secret
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.core.decision_context import Channel, Scope
from waybook.errors import Forbidden, Unauthenticated
from waybook.notifications.delivery import looks_like_secret
from waybook.store import links
from waybook.store.links import AccessLink, LinkKind

__all__ = ["AccessLink", "LinkKind"]

#: Scopes of a person who opens the link in a message about a review or a completed stage. The
#: person can read the plan or run, and decide the review or give feedback on the stage.
_LINK_SCOPES: Final = frozenset({Scope.PLAN_READ, Scope.REVIEW})


async def find_link(services: Services, secret: str, kind: LinkKind) -> AccessLink:
    """Return the link with this secret, even if the link has expired or was revoked."""
    if not looks_like_secret(secret):
        raise Unauthenticated
    rows = await find_by_secret(services.database, secret, links.by_link_statements)
    if not rows or rows[0].kind != kind:
        raise Unauthenticated
    link: AccessLink = rows[0]
    return link


def link_reader(link: AccessLink) -> Caller:
    """Return a caller who can read the page that the link opens, and do nothing else."""
    return Caller(
        org_id=link.org_id,
        user=link.for_user,
        channel=Channel.DASHBOARD,
        scopes=frozenset({Scope.PLAN_READ}),
        credential=f"link:{link.id}",
    )


def link_decider(link: AccessLink) -> Caller:
    """Return the person for whom the link was created, as a caller who may review.

    Raises:
        Forbidden: the user is disabled or may not review.
    """
    is_local = not link.has_account and link.org_id == LOCAL_ORG
    scopes = _LINK_SCOPES if is_local else _LINK_SCOPES & link.scopes
    if Scope.REVIEW not in scopes:
        raise Forbidden(
            f"this link decides for {link.for_user}, who may not review here; open the plan or "
            "run and sign in as a reviewer",
            needed=[str(Scope.REVIEW)],
        )
    return Caller(
        org_id=link.org_id,
        user=link.user_name or link.for_user,
        channel=Channel.DASHBOARD,
        scopes=scopes,
        credential=f"link:{link.id}",
    )


async def revoke_action_links(ctx: RequestContext, subject_id: str | None) -> int:
    """Revoke the action links of a plan or run or, without a `subject_id`, of the whole org.

    Return how many links were revoked.
    """
    (rows,) = await ctx.write_and_read(
        links.SQL["revoke_action_links"](subject_id=subject_id, by=ctx.caller.user)
    )
    return len(rows)
