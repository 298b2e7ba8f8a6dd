"""Who acts at which moment: what every rule is told of the world."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from waybook.record.holder import Holder

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


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


@lru_cache(maxsize=4096)
def rfc3339(at: datetime) -> str:
    """A time in RFC 3339, in UTC. Kept: a call writes the same moment many times over."""
    return at.astimezone(UTC).isoformat()
