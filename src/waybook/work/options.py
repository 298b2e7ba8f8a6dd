"""Options of `waybook work`."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from waybook.client import Client
from waybook.json_values import Json
from waybook.work.adapters import Adapter
from waybook.work.tasks import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    #: Each agent, with the number of its workers.
    agents: tuple[tuple[Adapter, int], ...]
    #: Returns a client for the agent with this name.
    connect: Callable[[str], Client]
    #: The plan or run, as an argument of tools; without it, the workers work on all of them.
    subject: Mapping[str, str] = field(default_factory=dict)
    #: Folder in which the person has started the workers.
    folder: Path
    state_folder: Path
    say: Callable[[str], None]
    #: None: a worktree for each step, if the folder is in a repository.
    isolation: str | None = None
    target: str | None = None
    check: Adapter | None = None
    requires_change: bool = False
    max_attempts: int = 3
    #: Scope, period, unit and limit of each cap. The scope `work` is the plan or the run.
    caps: tuple[Mapping[str, Any], ...] = ()
    limits: Limits = field(default_factory=Limits)
    grace_seconds: float = 60.0
    #: Seconds that a call waits for work; also the pause after several plans had no work.
    wait_seconds: int = 10
    #: Entry with which an agent starts Waybook as an MCP server.
    mcp_server: Mapping[str, Json] | None = None
    #: Texts to mask in the output of agents.
    secrets: tuple[str, ...] = ()
    host: str = field(default_factory=socket.gethostname)

    def reservation(self, subject: Mapping[str, str]) -> dict[str, Any]:
        """Return the caps, and what one piece of work may use: an equal share for each worker."""
        workers = sum(count for _, count in self.agents)
        most: dict[str, float] = {"seconds": int(self.limits.seconds) or 1}
        work = "run" if "runId" in subject else "plan"
        for cap in self.caps:
            if (unit := cap["unit"]) in {"tokens", "costUsd", "seconds"}:
                share = cap["limit"] / workers
                share = share if unit == "costUsd" else int(share) or 1
                most[unit] = min(most.get(unit, share), share)
        caps = [{**cap, "scope": work} if cap["scope"] == "work" else {**cap} for cap in self.caps]
        # Reports renew the reservation. That of a killed worker counts as used when it ends.
        return {**subject, "maximum": most, "caps": caps, "leaseSeconds": 60}
