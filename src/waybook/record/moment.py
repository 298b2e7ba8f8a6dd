"""Who acts at which moment: what every rule is told of the world."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class Channel(StrEnum):
    """The door a call came through."""

    MCP = "mcp"
    DASHBOARD = "dashboard"
    CLI = "cli"
    REST = "rest"
    SWEEP = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts, through which door, in which conversation of their own naming."""

    user: str
    channel: Channel
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a rule is told of the world: the time, the actor, and fresh ids."""

    now: datetime
    actor: Actor
    new_id: Callable[[], str]
