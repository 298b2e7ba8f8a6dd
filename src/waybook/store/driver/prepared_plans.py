"""Decides when a connection discards the query plans of its prepared statements."""

from dataclasses import dataclass

#: Query plans are first discarded after this many messages. Then the interval grows up to
#: `REPLAN_EVERY` messages.
REPLAN_FIRST = 16
REPLAN_EVERY = 4096


@dataclass(slots=True)
class PreparedPlans:
    """Decides when a connection discards the query plans of its prepared statements.

    PostgreSQL keeps a plan that was made while a table was nearly empty, even if it uses an
    unsuitable index. Plans are therefore discarded after 16, 64, 256, … messages, and later after
    every 4,096 messages.
    """

    messages: int = 0
    replan_at: int = REPLAN_FIRST

    def needs_replan(self) -> bool:
        """Count a round trip, and return whether to discard the query plans in it."""
        self.messages += 1
        if self.messages < self.replan_at:
            return False
        self.replan_at = min(4 * self.messages, self.messages + REPLAN_EVERY)
        return True
