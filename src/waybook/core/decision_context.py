"""Defines the inputs that all rules need besides the plan or run, and the holder of a step or job.

A rule is a function that decides which changes a call makes. The inputs are the time, the caller,
the caller's scopes and the org's review policy.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from waybook.errors import Forbidden, NextCall


class Holder(NamedTuple):
    """User and session that hold a step or job.

    Two users can choose the same session name, so a conversation is identified by user and session
    together.
    """

    user: str
    session: str | None = None

    def is_same_conversation(self, other: "Holder | None") -> bool:
        """Return whether this holder and `other` are certainly the same conversation of one user.

        If there is no session name, the result is False, because two agents of one user would look
        the same.

        >>> Holder("ann", "main").is_same_conversation(Holder("ann", "main"))
        True
        >>> Holder("ann", "main").is_same_conversation(Holder("bob", "main"))
        False
        >>> Holder("ann").is_same_conversation(Holder("ann"))
        False
        """
        return self.session is not None and self == other


class Channel(StrEnum):
    MCP = "mcp"
    DASHBOARD = "dashboard"
    CLI = "cli"
    REST = "rest"
    SWEEP = "sweep"


class ReviewPolicy(StrEnum):
    """Policy of an org that says who may decide a review."""

    #: An agent may submit the decision of its user. The review then records that an agent relayed
    #: the decision.
    RELAYED = "relayed"
    #: Only a user with the scope `review` may decide: on a web page, or with a credential that did
    #: not request the review.
    HUMAN = "human"


class Actor(NamedTuple):
    user: str
    channel: Channel
    session: str | None = None
    #: The caller's credential. A person and the person's agent have different credentials.
    principal: str | None = None
    reviews: bool = False

    @property
    def holder(self) -> Holder:
        return Holder(self.user, self.session)


class DecisionContext(NamedTuple):
    """The inputs of a rule besides the plan or run: time, actor, new ids and review policy."""

    now: datetime
    actor: Actor
    #: Function that returns a new id for a plan, step, run, job or review. Other rows get UUIDs.
    new_id: Callable[[], str]
    new_uuid: Callable[[], str]
    #: The org's review policy. It is loaded only for calls that depend on it.
    policy: ReviewPolicy = ReviewPolicy.RELAYED
    #: Whether the time is that of a simulation, such as the demo.
    is_simulated: bool = False


class Scope(StrEnum):
    PLAN_READ = "plan:read"
    PLAN_WRITE = "plan:write"
    RUN_WRITE = "run:write"
    REVIEW = "review"
    ADMIN = "admin"


_IMPLIED: Final = {
    Scope.PLAN_READ: frozenset({Scope.PLAN_READ}),
    Scope.PLAN_WRITE: frozenset({Scope.PLAN_READ, Scope.PLAN_WRITE}),
    Scope.RUN_WRITE: frozenset({Scope.PLAN_READ, Scope.RUN_WRITE}),
    Scope.REVIEW: frozenset({Scope.PLAN_READ, Scope.REVIEW}),
    Scope.ADMIN: frozenset(Scope),
}
ALL_SCOPES: Final = frozenset(Scope)


def expand_scopes(scopes: Iterable[Scope]) -> frozenset[Scope]:
    """Return these scopes and the scopes that they imply.

    >>> sorted(expand_scopes([Scope.REVIEW]))
    [<Scope.PLAN_READ: 'plan:read'>, <Scope.REVIEW: 'review'>]
    >>> expand_scopes([]), expand_scopes([Scope.ADMIN]) == ALL_SCOPES
    (frozenset(), True)
    """
    return frozenset[Scope]().union(*(_IMPLIED[scope] for scope in scopes))


def decider_refusal(actor: Actor, policy: ReviewPolicy, requested_as: str | None) -> str | None:
    """Return why the review policy does not allow an actor to decide, or None if it does.

    `requested_as` is the credential that requested the review.
    """
    if policy is ReviewPolicy.RELAYED:
        return None
    if not actor.reviews:
        return (
            "this org requires a human decision: on the review page, or with a credential of the "
            "reviewer's own that has the scope review"
        )
    if requested_as is not None and actor.principal == requested_as:
        return (
            "the requester of a review cannot decide it; another reviewer must, on the review page"
        )
    return None


def require_decider(context: DecisionContext, *, requested_as: str | None, look: NextCall) -> None:
    """Raise an error if the review policy does not allow the actor to decide.

    Raises:
        Forbidden: a person has to decide, and the actor is not known to be a person.
    """
    if refusal := decider_refusal(context.actor, context.policy, requested_as):
        raise Forbidden(refusal, next_call=look, reviewPolicy=str(context.policy))


class _ClaimedWork(Protocol):
    """A step or job that an agent can claim."""

    @property
    def attempt(self) -> int: ...

    @property
    def held_by(self) -> str | None: ...

    @property
    def held_session(self) -> str | None: ...

    @property
    def holder(self) -> Holder | None: ...


def is_current_attempt(attempt: int | None, work: _ClaimedWork, actor: Actor) -> bool:
    """Return whether a result belongs to the current attempt.

    A result without an attempt number counts as current if the caller holds the step or job, or if
    there is no holder.
    """
    if attempt is not None:
        return attempt == work.attempt
    return work.holder in {None, actor.holder}


def is_repeated_result(attempt: int | None, work: _ClaimedWork, actor: Actor) -> bool:
    """Return whether the agent that completed a step or job submits its result again."""
    if attempt is None:
        return actor.holder == (work.held_by, work.held_session)
    return attempt == work.attempt and actor.user == work.held_by
