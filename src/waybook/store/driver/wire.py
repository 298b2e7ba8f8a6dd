"""Settings of every connection, the server's plans on one, and what a message may come to."""

import logging
from dataclasses import dataclass

from waybook.store.driver.queries import Statement, load

log = logging.getLogger(__name__)

SQL = load("driver/wire")

LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "6s"
#: How long PostgreSQL keeps the locks of a transaction whose server sends nothing more.
IDLE_IN_TRANSACTION_TIMEOUT = "10s"
#: Deadline of one message, from sending it to its last answer. Later than STATEMENT_TIMEOUT, so
#: that PostgreSQL cancels a slow statement, and says so, before we give the connection up.
MESSAGE_SECONDS = 7.5
#: The same for commands that hold no other caller up, such as `waybook audit verify`.
PATIENT_STATEMENT_TIMEOUT = "10min"
PATIENT_MESSAGE_SECONDS = 630.0
#: The server process of nobody: what is set for it holds for one transaction.
NO_BACKEND_PID = 0
REPLAN_FIRST = 16
REPLAN_EVERY = 4096


class KeyConflict(Exception):
    """A row with this key is there already: somebody else was first."""

    def __init__(self, constraint: str) -> None:
        """Remember which key."""
        super().__init__(constraint)
        self.constraint = constraint


class StaleCache(Exception):
    """What a call relied upon is not so any more; nothing was written. It has to look again."""


class PreparedStatementLost(Exception):
    """The server does not know what we prepared: a pooler stands in between."""


@dataclass(slots=True)
class WireSettings:
    """How messages go out, over all connections alike."""

    lock_timeout: str = LOCK_TIMEOUT
    statement_timeout: str = STATEMENT_TIMEOUT
    idle_timeout: str = IDLE_IN_TRANSACTION_TIMEOUT
    message_seconds: float = MESSAGE_SECONDS
    #: Whether a pooler stands between us and the server.
    pooled: bool = False

    def session_settings(self, pid: int) -> Statement:
        """The settings, for the session of this server process, else for one transaction."""
        return SQL["set_session"](
            lock_timeout=self.lock_timeout,
            statement_timeout=self.statement_timeout,
            idle_timeout=self.idle_timeout,
            pid=pid,
        )

    def be_patient(self) -> None:
        """Allow minutes for a statement, for commands that read everything there is."""
        self.statement_timeout = PATIENT_STATEMENT_TIMEOUT
        self.message_seconds = PATIENT_MESSAGE_SECONDS

    def assume_pooler(self) -> None:
        """Rely on nothing that is kept with a connection, from now on."""
        if not self.pooled:
            log.warning("a pooler stands before the database: statements are not prepared")
        self.pooled = True


@dataclass(slots=True)
class PreparedPlans:
    """The server's plans for what is prepared on a connection.

    A plan made while a table was nearly empty may take a poor index, and is kept. So plans are
    made anew as the tables grow: after 16 messages, 64, 256, …, then every 4,096.
    """

    messages: int = 0
    replan_at: int = REPLAN_FIRST

    def needs_replan(self) -> bool:
        """Count a message, and tell whether the plans should be made anew with it."""
        self.messages += 1
        if self.messages < self.replan_at:
            return False
        self.replan_at = min(4 * self.messages, self.messages + REPLAN_EVERY)
        return True
