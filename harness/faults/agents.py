"""Simulated agents that work, crash and resume; each is an asyncio task."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from faults.history import Body, Call, History, Hung, Outcome
from faults.tenants import Tenant
from faults.wire import Address, Answer, Broken, Overdue, Wire

DEADLINE_SECONDS: Final = 30.0
MAX_TRIES: Final = 200
#: Seconds after which an agent stops repeating a call without an answer.
MAX_CALL_SECONDS: Final = 90.0
#: Seconds after which an agent stops repeating a call if the test run has already ended.
MAX_LAST_SECONDS: Final = 10.0
MIN_BACKOFF_SECONDS: Final = 0.02
MAX_BACKOFF_SECONDS: Final = 0.4
#: Error codes after which an agent repeats the call: it had no effect, or its effect is unknown.
RETRIED_CODES: Final = frozenset({"UNAVAILABLE", "BUSY", "DISK_FULL", "RATE_LIMITED"})
HTTP_OK: Final = 200
SERVER_ERROR: Final = 500


@dataclass(slots=True)
class Workload:
    """State that all agents share: server addresses, call history, and settings."""

    addresses: Mapping[str, Address]
    history: History
    rng: random.Random
    tenants: list[Tenant]
    #: Number of open plans of each org, and number of open runs.
    open_plans: int = 4
    open_runs: int = 2
    #: True if agents create new plans and runs.
    makes_new: bool = True
    #: True if agents sometimes crash, pause while they hold work, or close the connection before a
    #: call is answered.
    misbehaves: bool = True
    is_over: bool = False
    #: If the holder of a step is inactive for this time, another agent retries the step.
    patience_seconds: float = 2.5
    #: Pause of an agent between two actions, which limits the load.
    pause_seconds: float = 0.0
    keys: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_key(self) -> str:
        """Return a new idempotency key, which also marks the data that the call writes."""
        return f"k-{next(self.keys):07d}"

    def chance(self, share: float) -> bool:
        """Return True with the probability `share`, but never if agents must not misbehave."""
        return self.misbehaves and self.rng.random() < share


class Agent:
    """Agent in a conversation of a user; it repeats calls that were not answered."""

    def __init__(self, work: Workload, tenant: Tenant, user: str, session: str) -> None:
        self.work = work
        self.tenant = tenant
        self.user = user
        self.session = session
        self.rng = random.Random(work.rng.getrandbits(64))
        self.wire = Wire(work.addresses, tenant.tokens[user])
        self.server = self.rng.choice(sorted(work.addresses))
        #: Complete reply to the last call; the history has only a part of it.
        self.body: Body = {}

    async def call(self, tool: str, args: Body, key: str | None = None) -> Call:
        """Make a tool call, repeat it with the same key until it is answered, and record it."""
        arguments = {**args, "sessionId": self.session}
        if key is not None:
            arguments["idempotencyKey"] = key
        call = Call(
            org=self.tenant.slug,
            user=self.user,
            session=self.session,
            tool=tool,
            args=args,
            key=key,
            sent=time.monotonic(),
        )
        if key is not None and self.work.chance(0.004):
            await self.wire.send_and_leave(self.server, tool, arguments)
            call.tries = 1
        else:
            await self._repeat(call, arguments)
        call.received = time.monotonic()
        self.work.history.add(call)
        return call

    async def _repeat(self, call: Call, arguments: Body) -> None:
        end, backoff = call.sent + MAX_CALL_SECONDS, MIN_BACKOFF_SECONDS
        while call.tries < MAX_TRIES and time.monotonic() < end:
            call.tries += 1
            answer = await self._try(call, arguments)
            if answer is not None and self._record_answer(call, answer):
                return
            if self.work.is_over and time.monotonic() > call.sent + MAX_LAST_SECONDS:
                return
            backoff = min(2 * backoff, MAX_BACKOFF_SECONDS)
            await asyncio.sleep(backoff * (0.5 + self.rng.random()))
            if self.rng.random() < 0.5:
                self.server = self.rng.choice(sorted(self.work.addresses))

    async def _try(self, call: Call, arguments: Body) -> Answer | None:
        history, sent = self.work.history, time.monotonic()
        call.answered_sent, call.server = sent, self.server
        try:
            return await self.wire.call(self.server, call.tool, arguments, DEADLINE_SECONDS)
        except Broken:
            history.retried["transport"] += 1
        except Overdue:
            history.retried["deadline"] += 1
            history.hung.append(Hung(call.tool, self.server, sent, time.monotonic() - sent))
        return None

    def _record_answer(self, call: Call, answer: Answer) -> bool:
        """Record an answer; return True if it is final, or False if the call must be repeated."""
        history = self.work.history
        if answer.status >= SERVER_ERROR:
            history.retried[f"http {answer.status}"] += 1
            return False
        if answer.status != HTTP_OK:
            call.outcome, call.code = Outcome.REFUSED, f"HTTP_{answer.status}"
            return True
        history.inspect(call.org, answer.raw, json.dumps(call.args))
        is_error, body = answer.tool_result()
        code = str(body["error"]["code"]) if is_error else ""
        if code in RETRIED_CODES:
            history.retried[code] += 1
            return False
        call.code, call.reply, self.body = code, body, body
        call.outcome = Outcome.REFUSED if is_error else Outcome.ACKNOWLEDGED
        return True

    async def live(self) -> None:
        """Work until the test run ends, with occasional crashes."""
        try:
            while not self.work.is_over:
                if self.work.chance(0.01):
                    await self.die()
                await self.turn()
                await asyncio.sleep(self.work.pause_seconds * 2 * self.rng.random())
        finally:
            self.wire.close()

    async def turn(self) -> None:
        raise NotImplementedError

    async def die(self) -> None:
        """Simulate a crash: forget all state, then start in the same conversation or a new one."""
        self.wire.close()
        await asyncio.sleep(self.rng.uniform(0.1, 1.5))
        if self.rng.random() < 0.3:
            self.session = f"return-{self.rng.getrandbits(32):08x}"
        self.server = self.rng.choice(sorted(self.work.addresses))

    async def doze(self, seconds: float) -> None:
        """Wait without sending a heartbeat."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.work.is_over:
            await asyncio.sleep(0.05)
