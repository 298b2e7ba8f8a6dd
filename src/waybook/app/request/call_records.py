"""Records answered calls for metrics and the log."""

import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from waybook.app.request.answers import dumped
from waybook.app.request.arguments import is_blank
from waybook.app.request.caller import Answer, Caller
from waybook.app.request.tool import Tool
from waybook.core.histograms import DURATION_BOUNDS, Histogram
from waybook.redaction import redact
from waybook.store.calls import LoggedCall


class CallFigures:
    def __init__(self) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()
        self.durations: dict[str, Histogram] = {}

    def record(self, tool: str, outcome: str, seconds: float) -> None:
        self.counted[tool, outcome] += 1
        durations = self.durations.get(tool)
        if durations is None:
            durations = self.durations[tool] = Histogram(DURATION_BOUNDS)
        durations.observe(seconds)


class Measured(NamedTuple):
    size: int = 0
    seconds: float = 0.0
    #: Database time of the call, if known.
    at: datetime | None = None


def log_entry(
    tool: Tool,
    caller: Caller,
    arguments: Mapping[str, object],
    answer: Answer,
    measured: Measured,
    step_id: str | None = None,
) -> LoggedCall:
    size, seconds, at = measured
    named = arguments.get("sessionId")
    session = None if is_blank(named) else named
    return LoggedCall(
        org_id=caller.org_id,
        at=at or datetime.fromtimestamp(time.time(), UTC),
        tool=tool.name,
        actor=caller.user,
        channel=caller.channel,
        session=_logged_session(session[:200]) if isinstance(session, str) else None,
        duration_ms=round(seconds * 1000, 3),
        request_bytes=len(dumped(arguments)),
        response_bytes=size,
        is_error=answer.is_error,
        error_code=outcome_of(answer) if answer.is_error else None,
        replayed=bool(answer.body.get("replayed")),
        step_id=step_id,
        client=caller.client,
    )


@lru_cache(maxsize=1024)
def _logged_session(session: str) -> str:
    return redact(session)


def outcome_of(answer: Answer) -> str:
    error = answer.body.get("error")
    return str(error["code"]) if answer.is_error and isinstance(error, dict) else "ok"
