"""What somebody may do: the scopes a credential carries, and who may decide a review."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from waybook.errors import Forbidden, NextCall
from waybook.record.moment import DecisionContext, ReviewPolicy


class Scope(StrEnum):
    """One thing a credential lets its bearer do."""

    PLAN_READ = "plan:read"
    PLAN_WRITE = "plan:write"
    RUN_WRITE = "run:write"
    REVIEW = "review"
    ADMIN = "admin"


#: Whoever writes or decides must be able to read; who looks after the place may do everything.
IMPLIED: Final = {
    Scope.PLAN_READ: frozenset({Scope.PLAN_READ}),
    Scope.PLAN_WRITE: frozenset({Scope.PLAN_READ, Scope.PLAN_WRITE}),
    Scope.RUN_WRITE: frozenset({Scope.PLAN_READ, Scope.RUN_WRITE}),
    Scope.REVIEW: frozenset({Scope.PLAN_READ, Scope.REVIEW}),
    Scope.ADMIN: frozenset(Scope),
}
ALL_SCOPES: Final = frozenset(Scope)


def expand_scopes(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """All that these scopes let one do, those they imply included.

    >>> sorted(expand_scopes([Scope.REVIEW]))
    [<Scope.PLAN_READ: 'plan:read'>, <Scope.REVIEW: 'review'>]
    >>> expand_scopes([]), expand_scopes([Scope.ADMIN]) == ALL_SCOPES
    (frozenset(), True)
    """
    return frozenset[Scope]().union(*(IMPLIED[scope] for scope in scopes))


def require_decider(context: DecisionContext, *, requested_as: str | None, look: NextCall) -> None:
    """Let nobody decide who may not.

    `requested_as` is the credential that asked for the decision, if one did.

    Raises:
        Forbidden: a person has to decide, and this is not known to be one.
    """
    actor, policy = context.actor, context.policy
    if policy is ReviewPolicy.RELAYED:
        return
    if not actor.reviews:
        raise Forbidden(
            "here a person decides, and nobody passes it on: on the page of this review, or with "
            "a credential of their own that has the scope review",
            next_call=look,
            reviewPolicy=str(policy),
        )
    if requested_as is not None and actor.principal == requested_as:
        raise Forbidden(
            "whoever asked for this review cannot decide it; somebody else has to, on its page",
            next_call=look,
            reviewPolicy=str(policy),
        )
