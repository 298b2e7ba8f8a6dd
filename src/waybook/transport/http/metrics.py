"""Health checks, and metrics of all workers in the Prometheus text format."""

import asyncio
import logging
import mmap
import resource
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from itertools import accumulate, groupby
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import Final, Literal, NamedTuple, TypeAlias
from zlib import crc32

import orjson
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from waybook.app.dispatcher import Dispatcher
from waybook.core.histograms import Histogram
from waybook.errors import DiskFull, WaybookError
from waybook.transport.http.responses import error_response, json_response

_Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


class _Family(NamedTuple):
    kind: _Kind
    help: str
    labels: Sequence[str] = ()
    #: Whether each worker process has its own samples. If not, the workers' samples are added up.
    is_per_worker: bool = False


def gauge(text: str, *labels: str) -> _Family:
    return _Family("gauge", text, labels, is_per_worker=True)


FAMILIES: Final[Mapping[str, _Family]] = {
    "waybook_info": gauge(
        "Version of the program, and the newest migration that it has; always 1.",
        *("version", "schema"),
    ),
    "waybook_leader": gauge(
        "Whether this process does the periodic background work of the database."
    ),
    "waybook_calls_total": _Family(
        "counter",
        "Calls answered, by tool and outcome (ok, or the error's code).",
        ("tool", "outcome"),
    ),
    "waybook_call_duration_seconds": _Family(
        "histogram",
        "Durations of calls, by tool; including the time for which a call waits.",
        ("tool",),
    ),
    "waybook_call_log_dropped_total": _Family(
        "counter", "Calls that were answered but not logged."
    ),
    "waybook_waiting_calls": gauge("Calls that wait until work is free."),
    "waybook_pool_size": gauge("Maximum number of database connections of the pool."),
    "waybook_pool_open": gauge("Database connections that are open or being opened."),
    "waybook_pool_in_use": gauge("Database connections in use."),
    "waybook_pool_waiting": gauge("Calls that wait for a database connection."),
    "waybook_group_commit_calls": _Family(
        "histogram", "Calls that were committed together in one message."
    ),
    "waybook_loops_failing": gauge("Background loops whose last attempt failed."),
    "waybook_background_lag_seconds": gauge(
        "Seconds since the begin of the last finished pass over all orgs; only of the leader.",
        "work",
    ),
    "waybook_stalled_plans": gauge("Stalled plans of all orgs, as of the last stall sweep."),
    "waybook_stalled_steps": gauge("Stalled steps of all orgs, as of the last stall sweep."),
    "waybook_steps_in_progress": gauge(
        "Steps that a holder works on, as of the last stall sweep; only of the leader."
    ),
    "waybook_jobs_in_progress": gauge(
        "Jobs that a holder works on, as of the last stall sweep; only of the leader."
    ),
    "waybook_workers": gauge(
        "Workers that report, by state, as of the last stall sweep; only of the leader.", "state"
    ),
    "waybook_documents_waiting": gauge(
        "Documents to be rendered, as of the last stall sweep; only of the leader."
    ),
    "waybook_webhook_deliveries_waiting": gauge(
        "Webhook deliveries to be sent, as of the last stall sweep; only of the leader."
    ),
    "waybook_webhook_deliveries_overdue": gauge(
        "Webhook deliveries that are due, but that no process has tried; only of the leader."
    ),
    "waybook_webhook_deliveries_failed": gauge(
        "Webhook deliveries given up, among the latest of each org; only of the leader."
    ),
    "process_cpu_seconds_total": _Family(
        "counter", "CPU time of the process in seconds.", is_per_worker=True
    ),
    "process_resident_memory_bytes": gauge("Memory of the process in bytes."),
}


class Buckets(NamedTuple):
    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class Metric(NamedTuple):
    name: str
    value: float | Buckets
    labels: Mapping[str, str] = {}

    @property
    def family(self) -> _Family:
        return FAMILIES[self.name]


def render_metrics(metrics: Iterable[Metric]) -> str:
    r"""Return the metrics in the Prometheus text format, in the order of their families.

    >>> waiting = Metric(name="waybook_waiting_calls", value=3)
    >>> render_metrics([waiting]).splitlines()[1:]
    ['# TYPE waybook_waiting_calls gauge', 'waybook_waiting_calls 3']
    """
    order = {name: place for place, name in enumerate(FAMILIES)}
    lines = []
    ordered = sorted(metrics, key=lambda metric: order[metric.name])
    for name, group in groupby(ordered, key=attrgetter("name")):
        family = FAMILIES[name]
        lines += [f"# HELP {name} {_escape_label(family.help)}", f"# TYPE {name} {family.kind}"]
        for _, value, labels in group:
            if not isinstance(value, Buckets):
                lines.append(f"{name}{_format_labels(labels)} {_number(value)}")
                continue
            bounds = [*map(_number, value.bounds), "+Inf"]
            for bound, count in zip(bounds, accumulate(value.counts), strict=True):
                lines.append(f"{name}_bucket{_format_labels({**labels, 'le': bound})} {count}")
            lines.append(f"{name}_sum{_format_labels(labels)} {_number(value.total)}")
            lines.append(f"{name}_count{_format_labels(labels)} {sum(value.counts)}")
    return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    """Return a number as text, without a fraction if it has none.

    >>> _number(12_345_678), _number(0.25), _number(3.0)
    ('12345678', '0.25', '3')
    """
    return str(int(value)) if value == int(value) else repr(float(value))


def _format_labels(pairs: Mapping[str, str]) -> str:
    quoted = ",".join(
        '{}="{}"'.format(key, _escape_label(value).replace('"', r"\""))
        for key, value in pairs.items()
    )
    return f"{{{quoted}}}" if quoted else ""


def _escape_label(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


CollectMetrics: TypeAlias = Callable[[], Iterable[Metric]]


def collect_metrics(dispatcher: Dispatcher) -> Iterator[Metric]:
    """Yield the metrics of this process. Only the leader counts the work of all orgs."""
    services, figures = dispatcher.services, dispatcher.figures
    leads, work = services.leadership.is_leader, services.work
    names = (file.name for file in files("waybook.store.migrations").iterdir())
    newest = max(name.partition("_")[0] for name in names if name[:1].isdigit())
    yield Metric("waybook_info", 1, {"version": version("waybook"), "schema": newest})
    for (tool, outcome), count in sorted(figures.counted.items()):
        yield Metric("waybook_calls_total", count, {"tool": tool, "outcome": outcome})
    for tool, durations in sorted(figures.durations.items()):
        yield Metric("waybook_call_duration_seconds", _buckets(durations), {"tool": tool})
    yield Metric("waybook_group_commit_calls", _buckets(services.database.group_sizes))
    for name, seconds in sorted(services.leadership.lags().items()):
        yield Metric("waybook_background_lag_seconds", round(seconds, 1), {"work": name})
    values: dict[str, float] = {
        "waybook_call_log_dropped_total": dispatcher.calls.dropped,
        "waybook_waiting_calls": len(services.waiting),
        "waybook_leader": int(leads),
        "waybook_loops_failing": len(services.loops.failures),
        "process_cpu_seconds_total": round(time.process_time(), 3),
        "process_resident_memory_bytes": _resident_bytes(),
    }
    for name, value in services.database.pool.usage()._asdict().items():
        values[f"waybook_pool_{name}"] = value
    if services.stalls.is_counted:
        for name, value in services.stalls.total()._asdict().items():
            values[f"waybook_stalled_{name}"] = value
    if leads and work.by_org:
        total = work.total()
        values["waybook_steps_in_progress"] = total.steps
        values["waybook_jobs_in_progress"] = total.jobs
        values["waybook_documents_waiting"] = total.documents
        values["waybook_webhook_deliveries_waiting"] = total.deliveries
        values["waybook_webhook_deliveries_overdue"] = total.overdue_deliveries
        values["waybook_webhook_deliveries_failed"] = total.failed_deliveries
        for state in ("working", "sleeping", "parked", "draining"):
            yield Metric("waybook_workers", getattr(total, state), {"state": state})
    yield from (Metric(name, value) for name, value in values.items())


def _buckets(histogram: Histogram) -> Buckets:
    return Buckets(tuple(histogram.bounds), tuple(histogram.counts), histogram.total)


def _resident_bytes() -> int:
    """Return the memory use of this process in bytes or, without /proc, its maximum so far."""
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
        """Answer 200 if the database responds in time and the server is not stopping, else 503."""
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


log = logging.getLogger(__name__)

PUBLISH_SECONDS: Final = 1.0
#: Maximum age of gauges. Older gauges are left out, because their worker has ended.
MAX_AGE_SECONDS: Final = 10.0
MAX_BYTES: Final = 128 * 1024
_MAX_READS: Final = 3
_HEADER: Final = Struct("=II")
HALF_BYTES: Final = _HEADER.size + MAX_BYTES
_SLOT_BYTES: Final = 1 + 2 * HALF_BYTES

#: The time at which a worker published its metrics, and the metrics.
Published: TypeAlias = tuple[float, Sequence[Metric]]


class SharedMetrics:
    """Memory with one part per worker, created before the workers are forked.

    The worker that serves a request for metrics adds up the metrics of all workers.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._memory = mmap.mmap(-1, count * _SLOT_BYTES)

    def write(self, index: int, published: Published) -> None:
        at, metrics = published
        encoded = [
            (name, [*value] if isinstance(value, Buckets) else value, labels)
            for name, value, labels in metrics
        ]
        body = orjson.dumps([at, encoded])
        if len(body) > MAX_BYTES:
            log.warning("the metrics of worker %d are too large: %d bytes", index, len(body))
            return
        slot = index * _SLOT_BYTES
        half = 1 - self._memory[slot]
        begin = slot + 1 + half * HALF_BYTES
        text = _HEADER.pack(len(body), crc32(body)) + body
        self._memory[begin : begin + len(text)] = text
        self._memory[slot] = half

    def read(self, index: int) -> Published | None:
        slot = index * _SLOT_BYTES
        for _ in range(_MAX_READS):
            begin = slot + 1 + self._memory[slot] * HALF_BYTES
            length, checksum = _HEADER.unpack_from(self._memory, begin)
            begin += _HEADER.size
            body = self._memory[begin : begin + min(length, MAX_BYTES)]
            if length and crc32(body) == checksum:
                at, metrics = orjson.loads(body)
                return at, [
                    Metric(name, Buckets(*value) if isinstance(value, list) else value, labels)
                    for name, value, labels in metrics
                ]
        return None


class WorkerMetrics:
    """Metrics of one worker, and of all workers together."""

    def __init__(
        self,
        shared: SharedMetrics,
        index: int,
        collect: Callable[[], Iterable[Metric]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared
        self._index = index
        self._collect = collect
        self._clock = clock
        earlier = shared.read(index)
        self._earlier = [
            metric
            for metric in (earlier[1] if earlier else ())
            if metric.family.kind != "gauge" and not metric.family.is_per_worker
        ]

    def publish(self) -> None:
        self._shared.write(self._index, (self._clock(), self._own()))

    def collect(self) -> list[Metric]:
        now, metrics = self._clock(), list[Metric]()
        for index in range(self._shared.count):
            is_own = index == self._index
            published = (now, self._own()) if is_own else self._shared.read(index)
            if published is None:
                continue
            at, of_worker = published
            for metric in of_worker:
                if not metric.family.is_per_worker:
                    metrics.append(metric)
                # Gauges of a worker that has ended are left out.
                elif now - at <= MAX_AGE_SECONDS:
                    labels = {**metric.labels, "worker": str(index)}
                    metrics.append(metric._replace(labels=labels))
        return _add_up(metrics)

    def _own(self) -> list[Metric]:
        return _add_up([*self._earlier, *self._collect()])


def _add_up(metrics: Iterable[Metric]) -> list[Metric]:
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], Metric] = {}
    for metric in metrics:
        key = metric.name, tuple(metric.labels.items())
        known = sums.get(key)
        sums[key] = metric if known is None else _sum(known, metric)
    return list(sums.values())


def _sum(metric: Metric, other: Metric) -> Metric:
    match metric.value, other.value:
        case Buckets(bounds, first, total), Buckets(_, second, more):
            counts = [a + b for a, b in zip(first, second, strict=True)]
            return metric._replace(value=Buckets(bounds, counts, total + more))
        case float() | int() as one, float() | int() as another:
            return metric._replace(value=one + another)
    return other
