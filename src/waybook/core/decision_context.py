"""Who acts at which moment: what every rule is told of the world.

What somebody may do: the scopes a credential carries, and who may decide a review.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from waybook.core.holder import Holder
from waybook.errors import Forbidden, NextCall


class Channel(StrEnum):
    """The door a call came through."""

    MCP = "mcp"
    DASHBOARD = "dashboard"
    CLI = "cli"
    REST = "rest"
    SWEEP = "sweep"


class ReviewPolicy(StrEnum):
    """Whose word counts as a person's decision, in an org."""

    #: An agent may pass on what its user said; it is recorded as such.
    RELAYED = "relayed"
    #: Only whoever may review, on a page or with a credential of their own; never the requester.
    HUMAN = "human"


class Actor(NamedTuple):
    """Who acts, through which door, in which conversation of their own naming."""

    user: str
    channel: Channel
    session: str | None = None
    #: By which credential they are known; a person and their agent have different ones.
    principal: str | None = None
    #: Whether that credential lets them decide reviews.
    reviews: bool = False

    @property
    def holder(self) -> Holder:
        """The holder that this actor becomes by taking a step or job."""
        return Holder(self.user, self.session)


class DecisionContext(NamedTuple):
    """What a rule is told of the world: the time, the actor, and fresh ids."""

    now: datetime
    actor: Actor
    new_id: Callable[[], str]
    #: Asked for only where somebody decides.
    policy: ReviewPolicy = ReviewPolicy.RELAYED


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
