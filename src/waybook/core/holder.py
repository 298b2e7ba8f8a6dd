"""The holder of a step or job: a user and, optionally, a session."""

from typing import NamedTuple


class Holder(NamedTuple):
    """User and session that hold a step or job.

    Callers choose session names freely, so a session identifies a conversation only together with
    the user.
    """

    user: str
    session: str | None = None

    def is_same_conversation(self, other: "Holder | None") -> bool:
        """Return whether this holder and `other` are certainly the same conversation of one user.

        Without a session, two agents of one user cannot be distinguished, so the result is False.

        >>> Holder("ann", "main").is_same_conversation(Holder("ann", "main"))
        True
        >>> Holder("ann", "main").is_same_conversation(Holder("bob", "main"))
        False
        >>> Holder("ann").is_same_conversation(Holder("ann"))
        False
        """
        return self.session is not None and self == other
