"""The doorway's shape, until the doorway stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    org_id: UUID
    user: str
    channel: str


@dataclass(frozen=True, slots=True)
class Answer:
    body: dict[str, object]
    is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    name: str
    title: str
    description: str
    input_schema: dict[str, object]
    output_schema: dict[str, object]
    reads_only: bool
    destructive: bool
    idempotent: bool
    profiles: frozenset[str]


class Doorway(Protocol):
    async def enter(self, caller: Caller, tool: str, arguments: Mapping[str, object]) -> Answer: ...
