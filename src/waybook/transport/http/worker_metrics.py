"""Metrics of several worker processes, shared in memory.

Each worker writes its metrics to its own part of the memory. The worker that is asked for metrics
adds them up.
"""

import logging
import mmap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import orjson

from waybook.transport.http.metric_families import Buckets, Metric

log = logging.getLogger(__name__)

PUBLISH_SECONDS: Final = 1.0
#: Gauges older than this are left out, because their worker has ended.
MAX_AGE_SECONDS: Final = 10.0
MAX_BYTES: Final = 128 * 1024
_MAX_READS: Final = 3
_HEADER: Final = Struct("=II")
HALF_BYTES: Final = _HEADER.size + MAX_BYTES
_SLOT_BYTES: Final = 1 + 2 * HALF_BYTES

_Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


class Published(NamedTuple):
    at: float
    metrics: Sequence[Metric]


class SharedMetrics:
    """Memory with one part per worker, created before the workers are forked."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._memory = mmap.mmap(-1, count * _SLOT_BYTES)

    def write(self, index: int, published: Published) -> None:
        body = orjson.dumps([published.at, [_encoded(metric) for metric in published.metrics]])
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
                return Published(at, [_decoded(*metric) for metric in metrics])
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
            for metric in (earlier.metrics if earlier else ())
            if metric.family.kind != "gauge" and not metric.family.is_per_worker
        ]

    def publish(self) -> None:
        self._shared.write(self._index, Published(self._clock(), self._own()))

    def collect(self) -> list[Metric]:
        now, metrics = self._clock(), list[Metric]()
        for index in range(self._shared.count):
            is_own = index == self._index
            published = Published(now, self._own()) if is_own else self._shared.read(index)
            if published is not None:
                is_current = now - published.at <= MAX_AGE_SECONDS
                metrics += _of_worker(index, published.metrics, is_current=is_current)
        return _add_up(metrics)

    def _own(self) -> list[Metric]:
        return _add_up([*self._earlier, *self._collect()])


def _of_worker(index: int, metrics: Iterable[Metric], *, is_current: bool) -> list[Metric]:
    """Add the label `worker` where it applies, and leave out gauges of an ended worker."""
    label = {"worker": str(index)}
    return [
        Metric(name=m.name, value=m.value, labels={**m.labels, **label})
        if m.family.is_per_worker
        else m
        for m in metrics
        if is_current or not m.family.is_per_worker
    ]


def _add_up(metrics: Iterable[Metric]) -> list[Metric]:
    sums: dict[_Key, Metric] = {}
    for metric in metrics:
        key = metric.name, tuple(metric.labels.items())
        known = sums.get(key)
        sums[key] = metric if known is None else _sum(known, metric)
    return list(sums.values())


def _sum(metric: Metric, other: Metric) -> Metric:
    first, second = metric.value, other.value
    if isinstance(first, Buckets) and isinstance(second, Buckets):
        if len(first.counts) != len(second.counts):
            return other
        counts = [a + b for a, b in zip(first.counts, second.counts, strict=True)]
        value: float | Buckets = Buckets(first.bounds, counts, first.total + second.total)
    elif isinstance(first, Buckets) or isinstance(second, Buckets):
        return other
    else:
        value = first + second
    return Metric(name=metric.name, value=value, labels=metric.labels)


def _encoded(metric: Metric) -> tuple[str, Mapping[str, str], object]:
    value = metric.value
    return metric.name, metric.labels, list(value) if isinstance(value, Buckets) else value


def _decoded(name: str, labels: Mapping[str, str], value: float | list[Any]) -> Metric:
    return Metric(
        name=name, labels=labels, value=Buckets(*value) if isinstance(value, list) else value
    )
