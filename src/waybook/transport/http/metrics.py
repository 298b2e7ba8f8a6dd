"""Health checks, and metrics in the Prometheus text format."""

import asyncio
import resource
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from waybook.app.dispatcher import Dispatcher
from waybook.app.request.services import Services
from waybook.core.histograms import Histogram
from waybook.errors import DiskFull, WaybookError
from waybook.transport.http.metric_families import Buckets, Metric, render_metrics
from waybook.transport.http.responses import error_response, json_response

CollectMetrics: TypeAlias = Callable[[], Iterable[Metric]]


def collect_metrics(dispatcher: Dispatcher) -> Iterator[Metric]:
    yield Metric(
        name="waybook_info",
        value=1,
        labels={"version": version("waybook"), "schema": _newest_migration()},
    )
    yield from _of_calls(dispatcher)
    yield from _of_database(dispatcher.services)
    yield from _of_background(dispatcher.services)
    yield Metric(name="process_cpu_seconds_total", value=round(time.process_time(), 3))
    yield Metric(name="process_resident_memory_bytes", value=_resident_bytes())


def _of_calls(dispatcher: Dispatcher) -> Iterator[Metric]:
    figures = dispatcher.figures
    for (tool, outcome), count in sorted(figures.counted.items()):
        labels = {"tool": tool, "outcome": outcome}
        yield Metric(name="waybook_calls_total", value=count, labels=labels)
    for tool, durations in sorted(figures.durations.items()):
        yield Metric(
            name="waybook_call_duration_seconds", value=_buckets(durations), labels={"tool": tool}
        )
    yield Metric(name="waybook_call_log_dropped_total", value=dispatcher.calls.dropped)
    yield Metric(name="waybook_waiting_calls", value=len(dispatcher.services.waiting))


def _of_database(services: Services) -> Iterator[Metric]:
    for name, value in services.database.pool.usage()._asdict().items():
        yield Metric(name=f"waybook_pool_{name}", value=value)
    sizes = _buckets(services.database.group_sizes)
    yield Metric(name="waybook_group_commit_calls", value=sizes)


def _of_background(services: Services) -> Iterator[Metric]:
    """Yield metrics of the background work. Only the leader counts the work of all orgs."""
    leads = services.leadership.is_leader
    yield Metric(name="waybook_leader", value=int(leads))
    yield Metric(name="waybook_loops_failing", value=len(services.loops.failures))
    if services.stalls.is_counted:
        for name, value in services.stalls.total()._asdict().items():
            yield Metric(name=f"waybook_stalled_{name}", value=value)
    for work, seconds in sorted(services.leadership.lags().items()):
        labels = {"work": work}
        yield Metric(name="waybook_background_lag_seconds", value=round(seconds, 1), labels=labels)
    if leads and services.work.by_org:
        total = services.work.total()
        yield Metric(name="waybook_steps_in_progress", value=total.steps)
        yield Metric(name="waybook_jobs_in_progress", value=total.jobs)
        yield Metric(name="waybook_documents_waiting", value=total.documents)
        yield Metric(name="waybook_webhook_deliveries_waiting", value=total.deliveries)
        yield Metric(name="waybook_webhook_deliveries_overdue", value=total.overdue_deliveries)
        yield Metric(name="waybook_webhook_deliveries_failed", value=total.failed_deliveries)


def _buckets(histogram: Histogram) -> Buckets:
    return Buckets(tuple(histogram.bounds), tuple(histogram.counts), histogram.total)


@cache
def _newest_migration() -> str:
    folder = files("waybook.store.migrations")
    return max(file.name.partition("_")[0] for file in folder.iterdir() if file.name[:1].isdigit())


def _resident_bytes() -> int:
    """Return the memory use of this process in bytes. Some systems report only the maximum."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Bytes on macOS.
    return pages * resource.getpagesize()


READY_WITHIN: Final = 2.0  # The server is ready if the database responds within this many seconds.


@dataclass(frozen=True, slots=True)
class Operations:
    ready: Callable[[], Awaitable[bool]]
    stuck: Callable[[], bool]
    metrics: CollectMetrics

    async def healthz(self, _: Request) -> Response:
        """Answer 200 while the process can serve requests, or 503 if it must be restarted."""
        if self.stuck():
            return error_response(
                503, "UNAVAILABLE", "A database connection is stuck; restart the server."
            )
        return json_response({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        """Answer 200 if the database responds in time, else 503.

        A server that is stopping also answers 503.
        """
        try:
            async with asyncio.timeout(READY_WITHIN):
                ready = await self.ready()
        except DiskFull as error:
            return error_response(503, error.code, error.message)
        except (TimeoutError, WaybookError):
            ready = False
        if not ready:
            return error_response(
                503, "UNAVAILABLE", "The server is stopping, or the database does not answer."
            )
        return json_response({"status": "ready"})

    async def figures(self, _: Request) -> Response:
        text = render_metrics(self.metrics())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
