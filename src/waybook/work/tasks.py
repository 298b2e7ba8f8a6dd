"""A task for one agent, its limits, and its outcome."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from waybook.json_values import Json

NONE: Final[Mapping[str, str]] = MappingProxyType({})
MICROS_PER_DOLLAR: Final = 1_000_000


class Task(NamedTuple):
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


class Usage(NamedTuple):
    """Usage that the agent reported."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    model: str | None = None

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage", sign: int = 1) -> "Usage":
        """Return the sum or, with the sign -1, what this usage has beyond the other."""
        return Usage(
            max(0, self.input_tokens + sign * other.input_tokens),
            max(0, self.output_tokens + sign * other.output_tokens),
            max(0, self.cost_micros + sign * other.cost_micros),
            other.model or self.model,
        )

    def arguments(self) -> dict[str, Any]:
        """Return what was reported, under the names of the tools' arguments."""
        names = ("inputTokens", "outputTokens", "costUsd", "model")
        dollars = self.cost_micros / MICROS_PER_DOLLAR
        values = (self.input_tokens, self.output_tokens, dollars, self.model)
        return {name: value for name, value in zip(names, values, strict=True) if value}


class Limits(NamedTuple):
    """Limits of one agent; None means unlimited."""

    seconds: float = 3600.0
    output_bytes: int = 32 * 1024 * 1024
    memory_bytes: int | None = None
    cost_micros: int | None = None
    tokens: int | None = None
    #: Seconds between SIGTERM and SIGKILL.
    grace_seconds: float = 5.0
    #: Seconds during which the agent may repeat a failing request without making progress.
    patience_seconds: float = 60.0

    def after(self, seconds: float, used: Usage) -> "Limits":
        """Return what is left after this time and usage."""
        return self._replace(
            seconds=max(0.0, self.seconds - seconds),
            tokens=None if self.tokens is None else self.tokens - used.tokens,
            cost_micros=None if self.cost_micros is None else self.cost_micros - used.cost_micros,
        )

    @property
    def are_used_up(self) -> bool:
        limited = (self.seconds, self.tokens, self.cost_micros)
        return any(each is not None and each <= 0 for each in limited)

    @property
    def most(self) -> Usage:
        """Return the usage to assume if that of the agent is unknown."""
        return Usage(self.tokens or 0, 0, self.cost_micros or 0)


class OutcomeKind(StrEnum):
    DONE = "done"
    #: The agent is done, but its work is not accepted. It may correct it once.
    REJECTED = "rejected"
    FAILED = "failed"
    QUOTA = "quota"
    SIGN_IN = "sign_in"
    NO_MODEL = "no_model"
    NO_NETWORK = "no_network"
    TIMEOUT = "timeout"
    FLOODED = "flooded"
    OVER_MEMORY = "over_memory"
    OVER_CAP = "over_cap"


class Outcome(NamedTuple):
    kind: OutcomeKind
    #: What went wrong, for people; empty for an agent that is done.
    message: str = ""
    #: Last text of the agent, without the result block.
    text: str = ""
    #: Result that matches `Task.schema`, or None.
    result: Json = None
    usage: Usage = Usage()
    #: Conversation that `Task.resume` continues, if the agent has conversations.
    conversation: str | None = None
    #: Errors that the agent reported.
    errors: str = ""
    #: When the provider accepts requests again, if it said so.
    resumes_at: datetime | None = None
    #: Output of the agent: bounded, secrets masked.
    transcript: str = ""

    def rejected(self, fault: str) -> "Outcome":
        return self._replace(kind=OutcomeKind.REJECTED, message=fault)
