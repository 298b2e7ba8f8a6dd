"""Types that the transports and the dispatcher share.

This module imports no other module of `app`, so that a transport can start before the rest is
loaded.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from waybook.core.decision_context import ALL_SCOPES, Actor, Channel, Scope
from waybook.errors import Forbidden
from waybook.json_values import Json

#: Maximum size of a reply. While a large reply is serialized, all other calls have to wait.
MAX_REPLY_BYTES: Final = 256 * 1024
#: MCP resource with the JSON Schema of a workflow definition.
WORKFLOW_SCHEMA_URI: Final = "waybook://schema/workflow"


def keep_slot() -> None:
    """Do nothing, for a transport that does not limit concurrent calls."""


async def stay_authorized(*_: object) -> bool:
    """Return True, for a transport without credentials that could be revoked."""
    return True


@dataclass(frozen=True, slots=True)
class WaitHooks:
    release_slot: Callable[[], None] = keep_slot
    still_authorized: Callable[[], Awaitable[bool]] = stay_authorized
    #: Seconds that have passed since the call arrived. They are subtracted from its waiting time.
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user who makes a call, and the channel through which the call arrived."""

    org_id: UUID
    user: str
    channel: Channel
    scopes: frozenset[Scope] = ALL_SCOPES
    #: The caller's credential, such as `token:ID`, or `session:ID` of a web session.
    credential: str | None = None
    #: From here on, the fields describe one call, not the user.
    rate_counted: bool = False
    client: str | None = field(default=None, compare=False)
    hooks: WaitHooks = field(default=WaitHooks(), compare=False, repr=False)

    @property
    def principal(self) -> str:
        """Return the caller's identity in the audit, which is unique, unlike the user's name."""
        return self.credential or f"{self.channel}:{self.user}"

    def actor(self, session: str | None = None) -> Actor:
        reviews = Scope.REVIEW in self.scopes
        return Actor(self.user, self.channel, session, self.principal, reviews)


@dataclass(frozen=True, slots=True)
class Answer:
    body: dict[str, object]
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableDocument:
    resource_id: str
    run_id: str
    document_key: str
    model: str
    lineage: str
    version: int
    created_at: datetime
    markdown: str
    html: str
    #: Inputs of the document: key, stage, model, version, and the newer version if there is one.
    made_from: list[Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableOutput:
    output_id: str
    plan_id: str
    title: str
    media_type: str
    version: int
    created_at: datetime
    created_by: str
    content: str
    file_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableReview:
    summary: str
    questions: tuple[str, ...]
    requested_at: datetime
    #: Time of the decision, or of the plan's end. None while the review is open.
    ended_at: datetime | None
    is_decided: bool
    may_decide: bool
    reply: dict[str, object]


def require_scope(caller: Caller, scope: Scope | frozenset[Scope], what: str) -> None:
    """Raise `Forbidden` unless the caller has the scope or, of several scopes, at least one."""
    scopes = {scope} if isinstance(scope, Scope) else scope
    if scopes.isdisjoint(caller.scopes):
        needed = sorted(scopes)
        raise Forbidden(
            f"{what} needs the scope {' or '.join(needed)}, which your credential lacks; "
            "ask your administrator",
            needed=needed,
            granted=sorted(caller.scopes),
        )


def plan_url(plan_id: str, base_url: str) -> str:
    return f"{base_url}/plans/{plan_id}"


def review_url(plan_id: str, base_url: str) -> str:
    return f"{plan_url(plan_id, base_url)}#review"


def run_url(run_id: str, base_url: str) -> str:
    return f"{base_url}/runs/{run_id}"
