"""A task for one agent process, its limits, and its outcome."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from waybook.json_values import Json

NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Task(NamedTuple):
    """Piece of work for one agent process."""

    prompt: str
    #: Folder in which the agent works.
    folder: Path
    #: JSON Schema of the result; with None, the result is a text.
    schema: Json = None
    #: Conversation to continue, from `Outcome.conversation`.
    resume: str | None = None
    #: Variables for the agent, in addition to the allowed ones of this process.
    environment: Mapping[str, str] = NONE
    #: Entry of Waybook as an MCP server: `command`, `args` and `env`, or `url` and `headers`.
    mcp_server: Mapping[str, Json] | None = None
    #: Further texts to mask, besides the values of secret variables and headers.
    secrets: tuple[str, ...] = ()


class Limits(NamedTuple):
    """Limits of one agent process; None means unlimited."""

    seconds: float = 3600.0
    output_bytes: int = 32 * 1024 * 1024
    memory_bytes: int | None = None
    cost_micros: int | None = None
    tokens: int | None = None
    #: Seconds between SIGTERM and SIGKILL.
    grace_seconds: float = 5.0
    #: Seconds during which the agent may repeat a failing request without making progress.
    patience_seconds: float = 60.0


class OutcomeKind(StrEnum):
    DONE = "done"
    FAILED = "failed"
    QUOTA = "quota"
    SIGN_IN = "sign_in"
    NO_MODEL = "no_model"
    NO_NETWORK = "no_network"
    TIMEOUT = "timeout"
    FLOODED = "flooded"
    OVER_MEMORY = "over_memory"
    OVER_CAP = "over_cap"


class Usage(NamedTuple):
    """Usage that the agent reported; None if it reported none."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_micros: int | None = None
    model: str | None = None

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum; a count that only one of both has is that count."""
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cost_micros, other.cost_micros),
            other.model or self.model,
        )

    def minus(self, other: "Usage") -> "Usage":
        """Return the usage beyond that of the other, and the same model."""
        return self._replace(
            input_tokens=_rest(self.input_tokens, other.input_tokens),
            output_tokens=_rest(self.output_tokens, other.output_tokens),
            cost_micros=_rest(self.cost_micros, other.cost_micros),
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return (left or 0) + (right or 0) if left is not None or right is not None else None


def _rest(total: int | None, before: int | None) -> int | None:
    return total and max(0, total - (before or 0))


class Round(NamedTuple):
    """Result of one process or one request."""

    kind: OutcomeKind
    message: str
    text: str
    result: Json
    usage: Usage
    conversation: str | None
    #: Errors that the agent reported.
    errors: str


class Outcome(NamedTuple):
    kind: OutcomeKind
    #: Last text of the agent, without the result block.
    text: str
    #: Result that matches `Task.schema`, or None.
    result: Json
    usage: Usage
    #: Conversation that `Task.resume` continues, if the agent has conversations.
    conversation: str | None
    #: When the provider accepts requests again, if it said so.
    resumes_at: datetime | None
    #: What went wrong, for people; empty for an agent that is done.
    message: str
    #: Output of the agent: bounded, secrets masked.
    transcript: bytes
