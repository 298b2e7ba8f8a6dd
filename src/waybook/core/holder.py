"""Holder of a step or job: a user, and the user's name for one conversation (the session)."""

from typing import NamedTuple


class Holder(NamedTuple):
    """User and session that hold a step or job.

    A session is a name that a caller chooses, so it identifies a conversation only together with
    the user. All credentials of a user are the same user.
    """

    user: str
    session: str | None = None

    def is_same_conversation(self, other: "Holder | None") -> bool:
        """Return whether this holder and `other` are certainly one conversation of one user.

        Without a session, two agents of one user are indistinguishable, so a holder without a
        session is recognized by the attempt alone.

        >>> Holder("ann", "main").is_same_conversation(Holder("ann", "main"))
        True
        >>> Holder("ann", "main").is_same_conversation(Holder("bob", "main"))
        False
        >>> Holder("ann").is_same_conversation(Holder("ann"))
        False
        """
        return self.session is not None and self == other
