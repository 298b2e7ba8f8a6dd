"""Schedule by which a connection discards the query plans of its prepared statements."""

from dataclasses import dataclass

#: Number of messages after which a connection first discards its query plans, and the maximum
#: number of messages between two such times.
REPLAN_FIRST = 16
REPLAN_EVERY = 4096


@dataclass(slots=True)
class PreparedPlans:
    """Schedule by which a connection discards the query plans of its prepared statements.

    PostgreSQL keeps the query plan of a prepared statement, even if the plan was made while a table
    was nearly empty and uses an unsuitable index. Plans are therefore discarded after 16, 64, 256,
    … messages, and later after every 4,096 messages.
    """

    messages: int = 0
    replan_at: int = REPLAN_FIRST

    def needs_replan(self) -> bool:
        """Count a round trip; return whether to discard the query plans in it."""
        self.messages += 1
        if self.messages < self.replan_at:
            return False
        self.replan_at = min(4 * self.messages, self.messages + REPLAN_EVERY)
        return True
