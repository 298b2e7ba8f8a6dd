"""Health checks, and metrics in the Prometheus text format."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from waybook.app.dispatcher import Dispatcher
from waybook.errors import WaybookError
from waybook.transport.http.responses import error_response, json_response


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One Prometheus sample; samples with the same name differ in their labels."""

    name: str
    help: str
    kind: Literal["counter", "gauge"]
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def render_metrics(metrics: Iterable[Metric]) -> str:
    r"""Return the metrics in the Prometheus text format.

    >>> calls = Metric(name="calls_total", help="Calls.", kind="counter", value=3)
    >>> render_metrics([calls])
    '# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total 3\n'
    """
    lines = []
    for name, group in groupby(metrics, key=attrgetter("name")):
        figures = list(group)
        lines += [
            f"# HELP {name} {escape_label(figures[0].help)}",
            f"# TYPE {name} {figures[0].kind}",
        ]
        lines += [f"{name}{format_labels(figure.labels)} {figure.value:g}" for figure in figures]
    return "".join(f"{line}\n" for line in lines)


def format_labels(pairs: Mapping[str, str]) -> str:
    """Return Prometheus labels in braces, or an empty string without labels."""
    quoted = ",".join(
        '{}="{}"'.format(key, escape_label(value).replace('"', r"\""))
        for key, value in pairs.items()
    )
    return f"{{{quoted}}}" if quoted else ""


def escape_label(text: str) -> str:
    """Escape backslashes and line breaks for the Prometheus text format."""
    return text.replace("\\", r"\\").replace("\n", r"\n")


def collect_metrics(dispatcher: Dispatcher) -> Iterator[Metric]:
    """Yield counts since the process started, waiting calls, and stalls found by the last sweep."""
    for (tool, outcome), count in sorted(dispatcher.counted.items()):
        yield Metric(
            name="waybook_calls_total",
            help="Calls answered, by tool and outcome (ok, or the error's code).",
            kind="counter",
            value=count,
            labels={"tool": tool, "outcome": outcome},
        )
    yield Metric(
        name="waybook_call_log_dropped_total",
        help="Calls that were answered but not logged.",
        kind="counter",
        value=dispatcher.calls.dropped,
    )
    yield Metric(
        name="waybook_waiting_calls",
        help="Calls that wait until work is free.",
        kind="gauge",
        value=len(dispatcher.services.waiting),
    )
    stalls = dispatcher.services.stalls
    if stalls.is_counted:
        for name, value in stalls.total()._asdict().items():
            yield Metric(
                name=f"waybook_stalled_{name}",
                help=f"Stalled {name} of all orgs, as of the last stall sweep.",
                kind="gauge",
                value=value,
            )


READY_WITHIN: Final = 2.0  # Seconds within which the database must respond for the readiness check.


@dataclass(frozen=True, slots=True)
class Operations:
    """Health check and metrics endpoints for operators."""

    ready: Callable[[], Awaitable[bool]]
    stuck: Callable[[], bool]
    metrics: Callable[[], Iterable[Metric]]

    async def healthz(self, _: Request) -> Response:
        """Answer 200 while the process can serve requests, and 503 if only a restart would help."""
        if self.stuck():
            return error_response(
                503, "UNAVAILABLE", "A database connection is stuck; restart the server."
            )
        return json_response({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        """Answer 200 if the database responds within `READY_WITHIN` seconds, else 503.

        A server that is stopping also answers 503.
        """
        try:
            async with asyncio.timeout(READY_WITHIN):
                ready = await self.ready()
        except (TimeoutError, WaybookError):
            ready = False
        if not ready:
            return error_response(
                503, "UNAVAILABLE", "The server is stopping, or the database does not answer."
            )
        return json_response({"status": "ready"})

    async def figures(self, _: Request) -> Response:
        """Serve the metrics to Prometheus."""
        text = render_metrics(self.metrics())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
