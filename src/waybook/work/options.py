"""Options of `waybook work`, and reservations against the caps that the server keeps."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from waybook.client import Client
from waybook.json_values import Json
from waybook.work.adapters import Adapter
from waybook.work.tasks import Limits

_MICROS: Final = 1_000_000


class Cap(NamedTuple):
    """A limit of the command line. The scope `work` is the plan or the run."""

    scope: str
    period: str
    unit: str
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    #: Each agent, with the number of its workers.
    agents: tuple[tuple[Adapter, int], ...]
    #: Returns a client for the agent with this name.
    connect: Callable[[str], Client]
    #: Without a plan and a run, the workers work on all of them.
    plan_id: str | None = None
    run_id: str | None = None
    #: Folder in which the person has started the workers.
    folder: Path
    state_folder: Path
    say: Callable[[str], None]
    isolation: str = "none"
    target: str | None = None
    check: Adapter | None = None
    requires_change: bool = False
    max_attempts: int = 3
    caps: tuple[Cap, ...] = ()
    limits: Limits = field(default_factory=Limits)
    grace_seconds: float = 60.0
    #: Seconds that a call waits for work; also the pause after several plans had no work.
    wait_seconds: int = 10
    #: Entry with which an agent starts Waybook as an MCP server.
    mcp_server: Mapping[str, Json] | None = None
    #: Texts to mask in the output of agents.
    secrets: tuple[str, ...] = ()
    host: str = field(default_factory=socket.gethostname)

    async def wanted(self, client: Client) -> list[dict[str, str]]:
        """Return the plans and runs that may have work, as arguments of the calls that claim it."""
        if self.plan_id:
            return [{"planId": self.plan_id}]
        if self.run_id:
            return [{"runId": self.run_id}]
        plans = (await client.call("list_active_plans", limit=100))["plans"]
        return [*({"planId": plan["planId"]} for plan in plans), {}]

    def maximum(self) -> dict[str, float]:
        """Return what one piece of work may use: an equal share of the caps for each worker."""
        workers = sum(count for _, count in self.agents)
        most: dict[str, float] = {"seconds": int(self.limits.seconds) or 1}
        for cap in self.caps:
            share = cap.limit / workers
            share = share if cap.unit == "costUsd" else int(share) or 1
            if cap.unit in {"tokens", "costUsd", "seconds"}:
                most[cap.unit] = min(most.get(cap.unit, share), share)
        return most


class Reservation(NamedTuple):
    #: None if nothing was reserved; the message says why, and where a person decides.
    id: str | None
    limits: Limits
    message: str = ""
    #: Whether a person ended this work.
    is_ended: bool = False


async def reserve(
    options: Options, client: Client, subject: Mapping[str, str], **named: object
) -> Reservation:
    """Reserve what one step or job may use at most. `subject` has the plan or the run."""
    work = "run" if "runId" in subject else "plan"
    caps: list[dict[str, Any]] = [
        cap._asdict() | {"scope": work if cap.scope == "work" else cap.scope}
        for cap in options.caps
    ]
    reply = await client.call(
        "reserve_work", **subject, **named, maximum=options.maximum(), caps=caps
    )
    if reply["status"] == "granted":
        most, usual = reply.get("maximum") or {}, options.limits
        cost = most.get("costUsd")
        limits = usual._replace(
            seconds=min(usual.seconds, float(most.get("seconds") or usual.seconds)),
            cost_micros=None if cost is None else round(cost * _MICROS),
            tokens=most.get("tokens"),
        )
        return Reservation(str(reply["reservationId"]), limits)
    cap = reply["cap"]
    used = f"{cap['used']} of {cap['limit']} {cap['unit']} per {cap['scope']} are used"
    where = f"; decide here: {reply['url']}" if reply.get("url") else ""
    message = f"{reply['status']}: {used}{where}"
    return Reservation(None, options.limits, message, reply["status"] == "ended")
