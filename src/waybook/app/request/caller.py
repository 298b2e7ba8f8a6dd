"""What passes between a face and the doorway: who asks, what is answered, what can be read.

It knows nobody else, so that a face can be up before the rest of the house is.

Whether somebody may do what no tool does.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from waybook.core.decision_context import ALL_SCOPES, Actor, Channel, Scope
from waybook.errors import Forbidden

#: What the body of any reply may take as JSON, whatever is asked for. Serializing it for the wire
#: costs up to a hundred milliseconds a megabyte, and every other call of the process waits.
MAX_REPLY_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls: a user of an org, through one of the doors."""

    org_id: UUID
    user: str
    channel: Channel
    #: What they may do.
    scopes: frozenset[Scope] = ALL_SCOPES
    #: The credential they showed: `token:ID`, `session:ID`, … Where nobody shows one, the door.
    credential: str | None = None
    #: Whether this call has been counted already, where it came in.
    rate_counted: bool = False

    @property
    def principal(self) -> str:
        """By what the audit knows them apart from others of the same name."""
        return self.credential or f"{self.channel}:{self.user}"

    def actor(self, session: str | None = None) -> Actor:
        """The caller as the rules and the audit know it."""
        reviews = Scope.REVIEW in self.scopes
        return Actor(self.user, self.channel, session, self.principal, reviews)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a face passes on: a body ready for JSON, and whether it tells of an error."""

    body: dict[str, object]
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableDocument:
    """A document as people read it."""

    resource_id: str
    run_id: str
    document_key: str
    model: str
    lineage: str
    version: int
    created_at: datetime
    markdown: str
    html: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableOutput:
    """A deliverable of a plan, whole."""

    output_id: str
    plan_id: str
    title: str
    media_type: str
    version: int
    created_at: datetime
    created_by: str
    content: str
    #: What its file is called, wherever it is kept.
    file_name: str


def require_scope(caller: Caller, scope: Scope, what: str) -> None:
    """Refuse a caller without this scope.

    Raises:
        Forbidden: they have not got it.
    """
    if scope not in caller.scopes:
        raise Forbidden(
            f"{what} needs the scope {scope}, which your credential does not have; ask whoever "
            "gave it to you",
            needed=[str(scope)],
            granted=sorted(caller.scopes),
        )
