"""The single entry point for tool calls of every transport.

The dispatcher checks the arguments, calls the tool, turns errors into answers, and logs the call.
"""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final
from uuid import UUID

from waybook.app.registry import TOOLS
from waybook.app.request.answers import dumped, error_answer, retry_call, within_ceiling
from waybook.app.request.arguments import (
    ToolArguments,
    id_not_found,
    is_blank,
    parse_large_arguments,
)
from waybook.app.request.caller import Answer, Caller, require_scope
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.app.request.tool import Tool
from waybook.core.decision_context import Channel
from waybook.core.histograms import DURATION_BOUNDS, Histogram
from waybook.core.ids import IdKind, is_id, normalize_id
from waybook.errors import NotFound, RateLimited, StaleCredential, Unavailable, WaybookError
from waybook.redaction import redact
from waybook.store import agents
from waybook.store.calls import (
    CallLog,
    Key,
    LoggedCall,
    StoredAnswer,
    hash_arguments,
    lookup_statement,
    read_answer,
)
from waybook.store.driver.bus import Bus
from waybook.tracing import TRACING, describe_call

log = logging.getLogger(__name__)

#: Label in the metrics for requests that call no tool.
UNATTRIBUTED: Final = "other"
#: The rate limit counts an extra call for this many bytes of a reply, and for this many operations
#: to evaluate conditions or to draw a map.
REPLY_BYTES_PER_CALL: Final = 16 * 1024
OPERATIONS_PER_CALL: Final = 5_000
_NOT_HASHED: Final = {"idempotency_key"}
#: A session id or idempotency key that is longer than this is replaced by its hash.
MAX_KEY_LENGTH: Final = 200
_ID_KINDS: Final = {
    "plan_id": IdKind.PLAN,
    "step_id": IdKind.STEP,
    "run_id": IdKind.RUN,
    "job_id": IdKind.JOB,
    "review_id": IdKind.REVIEW,
}


class CallFigures:
    """Counts and durations of answered calls, for the metrics."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()
        self.durations = defaultdict[str, Histogram](lambda: Histogram(DURATION_BOUNDS))

    def record(self, tool: str, outcome: str, seconds: float) -> None:
        self.counted[tool, outcome] += 1
        self.durations[tool].observe(seconds)


class Dispatcher:
    def __init__(self, services: Services, calls: CallLog) -> None:
        self.services = services
        self.calls = calls
        self.figures = CallFigures()
        self.clock: Callable[[], int] = time.monotonic_ns

    @property
    def bus(self) -> Bus:
        return self.services.bus

    async def dispatch(
        self, caller: Caller, tool_name: str, arguments: Mapping[str, object]
    ) -> Answer:
        """Execute a tool call. Every exception except `StaleCredential` becomes an answer."""
        tool = TOOLS[tool_name]
        try:
            self.require_capacity(caller, tool.name)
        except RateLimited as error:
            return Answer(error.as_json(), is_error=True)
        tracer = TRACING.tracer
        if tracer is None:
            return await self._dispatch(tool, caller, arguments)
        with tracer.call(tool.name) as span:
            answer = await self._dispatch(tool, caller, arguments)
            describe_call(span, caller.org_id, outcome_of(answer), arguments, answer.body)
        return answer

    async def _dispatch(
        self, tool: Tool, caller: Caller, arguments: Mapping[str, object]
    ) -> Answer:
        started = time.perf_counter()
        plain = await self._answer(tool, caller, arguments)
        answer, size = within_ceiling(tool, caller, plain)
        if size >= REPLY_BYTES_PER_CALL:
            self.charge(caller, size // REPLY_BYTES_PER_CALL)
        seconds = time.perf_counter() - started
        self.figures.record(tool.name, outcome_of(answer), seconds)
        if tool.logged:
            named = (arguments.get("stepId"), plain.body.get("stepId"))
            ids = (normalize_id(text) for text in named if isinstance(text, str))
            step_id = next(filter(is_id, ids), None)
            self._log(tool, caller, arguments, answer, step_id, (size, seconds))
        return answer

    def require_capacity(self, caller: Caller, what: str = UNATTRIBUTED) -> None:
        if not caller.rate_counted and self.try_acquire(caller):
            raise self.rate_limited_answer(caller, what)

    def try_acquire(self, caller: Caller) -> float:
        """Count a call and return 0. At the rate limit, return the seconds to wait instead."""
        limit = self.services.rate_limit
        return limit.try_acquire(_bucket_key(caller), self.clock()) if limit is not None else 0.0

    def charge(self, caller: Caller, calls: int) -> None:
        if self.services.rate_limit is not None:
            self.services.rate_limit.charge(_bucket_key(caller), self.clock(), calls)

    def retry_after(self, caller: Caller) -> float:
        limit = self.services.rate_limit
        return limit.retry_after(_bucket_key(caller), self.clock()) if limit is not None else 0.0

    async def is_ready(self) -> bool:
        await self.services.database.check_ready()
        return True

    def rate_limited_answer(self, caller: Caller, what: str = UNATTRIBUTED) -> RateLimited:
        """Return the error for exceeding the rate limit.

        Only the first of several refusals in a row is logged.
        """
        limit = self.services.rate_limit
        if limit is None:
            return RateLimited()
        tool, error = TOOLS.get(what), limit.rate_limited_error(self.retry_after(caller))
        error.next_call = retry_call(error, tool, {}) if tool else None
        self.figures.counted[tool.name if tool else UNATTRIBUTED, error.code] += 1
        if limit.is_first_refusal(_bucket_key(caller)) and tool is not None and tool.logged:
            self._log(tool, caller, {}, Answer(error.as_json(), is_error=True))
        return error

    def _log(
        self,
        tool: Tool,
        caller: Caller,
        arguments: Mapping[str, object],
        answer: Answer,
        step_id: str | None = None,
        measured: tuple[int, float] = (0, 0.0),
    ) -> None:
        """Log a call. `measured` has the bytes of its reply, and its duration in seconds."""
        size, seconds = measured
        session = arguments.get("sessionId")
        named = session if isinstance(session, str) and not is_blank(session) else None
        self.calls.record(
            LoggedCall(
                org_id=caller.org_id,
                at=self.services.database.now() or datetime.fromtimestamp(time.time(), UTC),
                tool=tool.name,
                actor=caller.user,
                channel=caller.channel,
                session=named and _logged_session(named[:MAX_KEY_LENGTH]),
                duration_ms=round(seconds * 1000, 3),
                request_bytes=len(dumped(arguments)),
                response_bytes=size,
                is_error=answer.is_error,
                error_code=outcome_of(answer) if answer.is_error else None,
                replayed=bool(answer.body.get("replayed")),
                step_id=step_id,
                client=caller.client,
            )
        )

    async def _answer(self, tool: Tool, caller: Caller, arguments: Mapping[str, object]) -> Answer:
        try:
            require_scope(caller, tool.scopes, tool.name)
            args = await parse_large_arguments(tool.arguments, arguments)
            return await self._carry_out(tool, caller, args)
        except WaybookError as error:
            return error_answer(error, tool, arguments)
        except StaleCredential:
            raise  # The transport looks up the credential again, then repeats or refuses the call.
        except Exception:
            log.exception("the tool %s failed", tool.name)
            broken = Unavailable(
                "internal error; nothing was written. Repeat the call with the same "
                "idempotencyKey; if it fails again, see the server's log"
            )
            return error_answer(broken, tool, arguments)

    async def _carry_out(self, tool: Tool, caller: Caller, args: ToolArguments) -> Answer:
        session = _shortened(getattr(args, "session_id", None))
        ctx = RequestContext(services=self.services, caller=caller, session=session)
        if key := _shortened(getattr(args, "idempotency_key", None)):
            hashed = hash_arguments(args.model_dump(mode="json", exclude=_NOT_HASHED))
            ctx.key = Key(tool.name, key, caller.user, hashed)
        try:
            reply = await tool.run(ctx, args)
        except NotFound as error:
            # If this call is a retry, the first call may have removed the step. Look for the answer
            # of the first call.
            (rows,) = await ctx.read(lookup_statement(ctx.key)) if ctx.key else ([],)
            stored = read_answer(rows[0], ctx.key) if ctx.key and rows else None
            if stored is None:
                raise await _name_unknown_id(ctx, args, error) from None
            return _replayed_answer(stored)
        finally:
            if ctx.operations:
                self.charge(caller, sum(ctx.operations) // OPERATIONS_PER_CALL)
        if isinstance(reply, StoredAnswer):
            return _replayed_answer(reply)
        return Answer({**reply})


@lru_cache(maxsize=1024)
def _logged_session(session: str) -> str:
    return redact(session)


def outcome_of(answer: Answer) -> str:
    error = answer.body.get("error")
    return str(error["code"]) if answer.is_error and isinstance(error, dict) else "ok"


def _shortened(key: str | None) -> str | None:
    return sha256(key.encode()).hexdigest() if key and key[MAX_KEY_LENGTH:] else key


def _replayed_answer(stored: StoredAnswer) -> Answer:
    return Answer({**stored.body, "replayed": True}, is_error=stored.is_error)


def _bucket_key(caller: Caller) -> tuple[UUID, bool]:
    """Return the rate-limit key. The dashboard has its own key, so that agents cannot block it."""
    return caller.org_id, caller.channel is Channel.DASHBOARD


async def _name_unknown_id(ctx: RequestContext, args: ToolArguments, error: NotFound) -> NotFound:
    """Return an error that names the argument with the unknown id.

    If all ids exist and have the right kind, return the given error.
    """
    named = {name: text for name in _ID_KINDS if (text := getattr(args, name, None)) is not None}
    if "argument" in error.details or not named:
        return error
    (rows,) = await ctx.read(agents.names_statement(list(named.values())))
    kinds = {row.id: row.kind for row in rows}
    for name, text in named.items():
        if kinds.get(text) != _ID_KINDS[name]:
            at = str(type(args).model_fields[name].alias)
            return id_not_found(_ID_KINDS[name], at, text, kinds.get(text))
    return error
