"""Decides when a connection discards the query plans of its prepared statements."""

from dataclasses import dataclass

#: Query plans are discarded first after `REPLAN_FIRST` messages, and in the end every
#: `REPLAN_EVERY` messages.
REPLAN_FIRST = 16
REPLAN_EVERY = 4096


@dataclass(slots=True)
class PreparedPlans:
    """Decides when a connection discards the query plans of its prepared statements.

    PostgreSQL would keep a plan that was made while a table was nearly empty.
    """

    messages: int = 0
    replan_at: int = REPLAN_FIRST

    def needs_replan(self) -> bool:
        self.messages += 1
        if self.messages < self.replan_at:
            return False
        self.replan_at = min(4 * self.messages, self.messages + REPLAN_EVERY)
        return True
