"""Adapters: how to start each agent, and how to read its output."""

import shlex
from dataclasses import dataclass
from typing import Final

from waybook.errors import InvalidInput

CUSTOM: Final = "cmd:"


@dataclass(frozen=True, slots=True)
class Adapter:
    name: str
    command: tuple[str, ...]


def find_adapter(spec: str) -> tuple[Adapter, int]:
    """Return the adapter and the number of workers that an option such as `codex:2` means.

    Raises:
        InvalidInput: there is no such agent.
    """
    if spec.startswith(CUSTOM):
        return Adapter("cmd", tuple(shlex.split(spec.removeprefix(CUSTOM)))), 1
    raise InvalidInput(f"there is no agent {spec!r}")
