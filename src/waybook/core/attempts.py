"""The rule that decides whether a result belongs to the current attempt of a step or job."""

from typing import Protocol

from waybook.core.decision_context import Actor
from waybook.core.holder import Holder


class ClaimedWork(Protocol):
    """A step or job that an agent can claim."""

    @property
    def attempt(self) -> int: ...

    @property
    def held_by(self) -> str | None: ...

    @property
    def held_session(self) -> str | None: ...

    @property
    def holder(self) -> Holder | None: ...


def is_current_attempt(attempt: int | None, work: ClaimedWork, actor: Actor) -> bool:
    """Return whether a result belongs to the current attempt.

    A result without an attempt number is accepted from the holder, or from anyone if there is no
    holder.
    """
    if attempt is not None:
        return attempt == work.attempt
    return work.holder in {None, actor.holder}


def is_repeated_result(attempt: int | None, work: ClaimedWork, actor: Actor) -> bool:
    """Return whether the last holder submits the result of completed work again."""
    if attempt is None:
        return actor.holder == (work.held_by, work.held_session)
    return attempt == work.attempt and actor.user == work.held_by
