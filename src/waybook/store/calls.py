"""The log of tool calls, stored answers, and totals of tokens and cost.

The log is written in the background. A repeated call with the same idempotency key gets the stored
answer and is not executed again.
"""

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b, sha256
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from waybook.core.decision_context import Channel
from waybook.core.usage import Totals
from waybook.errors import IdempotencyConflict, WaybookError
from waybook.json_values import Json
from waybook.store import agents
from waybook.store.driver.database import Database
from waybook.store.driver.queries import AsJson, Rows, Statement, load, new_uuid

log = logging.getLogger(__name__)

MAX_QUEUED = 10_000
_MAX_BATCH_SIZE = 500
BATCH_DELAY_SECONDS = 0.2
MAX_SHOWN = 20


class LoggedCall(NamedTuple):
    """A tool call. The fields from `at` to `step_id` are columns of the call log."""

    org_id: UUID
    at: datetime
    tool: str
    actor: str
    channel: str
    session: str | None
    duration_ms: float
    request_bytes: int
    response_bytes: int
    is_error: bool
    error_code: str | None
    replayed: bool
    step_id: str | None = None
    client: str | None = None


class WorkUsageRow(NamedTuple):
    """Tokens and cost of a plan, of a run, or of the server's own language model."""

    usage: Totals
    plan_id: str | None
    run_id: str | None
    name: str
    #: Number of rows on all pages.
    total: int

    @property
    def kind(self) -> str:
        return "plan" if self.plan_id else "run" if self.run_id else "tool"

    @property
    def id(self) -> str | None:
        return self.plan_id or self.run_id


SQL = load(
    "calls",
    usage_totals=(Totals, "usage since until"),
    usage_by_model=(Totals, "usage model total"),
    usage_by_work=WorkUsageRow,
)


class CallLog:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[LoggedCall] = deque()
        self._has_waiting = asyncio.Event()
        self.dropped_of: Counter[UUID] = Counter()

    @property
    def dropped(self) -> int:
        return self.dropped_of.total()

    def record(self, call: LoggedCall) -> None:
        if len(self._waiting) >= MAX_QUEUED:
            self.dropped_of[call.org_id] += 1
            return
        self._waiting.append(call)
        self._has_waiting.set()

    async def write_next(self) -> None:
        """Wait for a queued call, wait briefly for more calls, and write all of them to the log."""
        await self._has_waiting.wait()
        await asyncio.sleep(BATCH_DELAY_SECONDS)
        await self._write(self._take())

    async def flush(self) -> None:
        while batch := self._take():
            await self._write(batch)

    def _take(self) -> list[LoggedCall]:
        taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH_SIZE))]
        if not self._waiting:
            self._has_waiting.clear()
        return taken

    async def _write(self, batch: list[LoggedCall]) -> None:
        by_org: dict[UUID, list[LoggedCall]] = defaultdict(list)
        for call in batch:
            by_org[call.org_id].append(call)
        for org_id, calls in by_org.items():
            try:
                async with self._database.org_transaction(org_id) as tx:
                    rows = [(at, new_uuid(), *columns) for _, at, *columns, _client in calls]
                    seen = [
                        (agents.AgentKey(call.actor, call.session or ""), call.client)
                        for call in calls
                        if call.channel == Channel.MCP
                    ]
                    statements = agents.record_statements(seen)
                    await tx.commit(SQL["insert_calls"](rows=Rows(rows)), *statements)
                    self._forget_clients(org_id, seen)
            except Exception as error:
                self.dropped_of[org_id] += len(calls)
                ours = isinstance(error, WaybookError)
                log.warning("%d calls not logged: %s", len(calls), error, exc_info=not ours)

    def _forget_clients(
        self, org_id: UUID, seen: Iterable[tuple[agents.AgentKey, str | None]]
    ) -> None:
        """Forget the cached clients of an org if an agent has a new one."""
        _, known = self._database.agent_clients.get(org_id, (0, {}))
        if any(client and known.get(key) != client for key, client in seen):
            self._database.agent_clients.pop(org_id, None)


class Key(NamedTuple):
    """Identifies a repeatable call: tool, idempotency key, user, and a hash of the arguments."""

    tool: str
    key: str
    user: str
    arguments_hash: bytes

    @property
    def stored(self) -> str:
        """Return the key under which the answer is stored. Different users never share a key."""
        return f"{self.key}@{blake2b(self.user.encode(), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    body: dict[str, Json]
    is_error: bool


def hash_arguments(arguments: Json) -> bytes:
    return sha256(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)).digest()


def store_answer(key: Key, answer: Json, now: datetime, *, is_error: bool) -> Statement:
    row = (key.tool, key.stored, key.arguments_hash, is_error, AsJson(answer), now)
    return SQL["insert_answer"](merged_rows=Rows([row]))


def lookup_statement(key: Key) -> Statement:
    """Select the stored answer to a call. Run this after locking the plan or run."""
    return SQL["stored_answer"](tool=key.tool, key=key.stored)


def read_answer(row: Sequence[Any], key: Key) -> StoredAnswer:
    arguments_hash, is_error, body = row
    stored = bytes.fromhex(arguments_hash)
    if stored != key.arguments_hash:
        raise IdempotencyConflict(
            f"you used this idempotencyKey before for {key.tool} with other arguments; use a new "
            "key for a new call, and the same key only to repeat exactly the same call",
            idempotencyKey=key.key,
            tool=key.tool,
        )
    return StoredAnswer(body, is_error)


def org_statements(
    since: datetime | None, most: int, until: datetime | None = None
) -> tuple[Statement, Statement, Statement]:
    return (
        SQL["usage_totals"](since=since, until=until),
        SQL["usage_by_model"](since=since, until=until, most=most),
        SQL["usage_by_work"](since=since, until=until, most=most),
    )


def read_steps(rows: Iterable[tuple[Any, ...]]) -> dict[str, Totals]:
    return {step_id: Totals(*sums) for *sums, step_id in rows}
