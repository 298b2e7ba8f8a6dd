"""The rule that decides whether a result belongs to the current attempt of a step or job."""

from typing import Protocol

from waybook.core.decision_context import Actor
from waybook.core.holder import Holder


class ClaimedWork(Protocol):
    """Step or job, with its last holder."""

    @property
    def attempt(self) -> int: ...

    @property
    def held_by(self) -> str | None: ...

    @property
    def held_session(self) -> str | None: ...

    @property
    def holder(self) -> Holder | None:
        """Present holder."""


def is_current_attempt(attempt: int | None, work: ClaimedWork, actor: Actor) -> bool:
    """Return whether a result belongs to the current attempt.

    Without an attempt number, it does if the actor is the holder, or if there is no holder.
    """
    if attempt is not None:
        return attempt == work.attempt
    return work.holder in {None, actor.holder}


def is_repeated_result(attempt: int | None, work: ClaimedWork, actor: Actor) -> bool:
    """Return whether the last holder of completed work submits its result again."""
    if attempt is None:
        return actor.holder == (work.held_by, work.held_session)
    return attempt == work.attempt and actor.user == work.held_by
