"""Metrics that several worker processes share in memory."""

from collections.abc import Sequence

import pytest

from waybook.transport.http.metrics import (
    MAX_AGE_SECONDS,
    MAX_BYTES,
    Buckets,
    Metric,
    SharedMetrics,
    WorkerMetrics,
    render_metrics,
)

TOOL = {"tool": "ping", "outcome": "ok"}


def calls(count: float) -> Metric:
    return Metric(name="waybook_calls_total", value=count, labels=TOOL)


def waiting(count: float) -> Metric:
    return Metric(name="waybook_waiting_calls", value=count)


def group_sizes(*counts: int) -> Metric:
    return Metric(name="waybook_group_commit_calls", value=Buckets((1, 2), counts, sum(counts)))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def worker(
    shared: SharedMetrics, index: int, metrics: Sequence[Metric], clock: Clock | None = None
) -> WorkerMetrics:
    return WorkerMetrics(shared, index, lambda: metrics, clock or Clock())


def test_counters_of_workers_are_summed_and_gauges_labeled_by_worker() -> None:
    shared = SharedMetrics(2)
    first = worker(shared, 0, [calls(3), waiting(1), group_sizes(2, 1, 0)])
    second = worker(shared, 1, [calls(4), waiting(2), group_sizes(1, 0, 5)])
    second.publish()
    text = render_metrics(first.collect())
    assert 'waybook_calls_total{tool="ping",outcome="ok"} 7\n' in text
    assert 'waybook_waiting_calls{worker="0"} 1\n' in text
    assert 'waybook_waiting_calls{worker="1"} 2\n' in text
    assert 'waybook_group_commit_calls_bucket{le="1"} 3\n' in text
    assert 'waybook_group_commit_calls_bucket{le="2"} 4\n' in text
    assert 'waybook_group_commit_calls_bucket{le="+Inf"} 9\n' in text
    assert "waybook_group_commit_calls_count 9\n" in text


def test_new_worker_continues_the_counters_of_the_replaced_worker() -> None:
    shared = SharedMetrics(1)
    worker(shared, 0, [calls(3), waiting(5), group_sizes(1, 0, 0)]).publish()
    successor = worker(shared, 0, [calls(1), waiting(0), group_sizes(0, 1, 0)])
    successor.publish()
    text = render_metrics(worker(shared, 0, [calls(0), waiting(0)]).collect())
    assert 'waybook_calls_total{tool="ping",outcome="ok"} 4\n' in text
    assert 'waybook_waiting_calls{worker="0"} 0\n' in text
    assert "waybook_group_commit_calls_count 2\n" in text


def test_metrics_of_an_ended_worker_keep_counters_without_gauges() -> None:
    shared, clock = SharedMetrics(2), Clock()
    worker(shared, 1, [calls(3), waiting(5)], clock).publish()
    clock.now += MAX_AGE_SECONDS + 1
    text = render_metrics(worker(shared, 0, [calls(1), waiting(0)], clock).collect())
    assert 'waybook_calls_total{tool="ping",outcome="ok"} 4\n' in text
    assert 'worker="1"' not in text


def test_metrics_over_the_size_limit_are_not_written(caplog: pytest.LogCaptureFixture) -> None:
    shared = SharedMetrics(2)
    shared.write(0, (1.0, [calls(1)]))
    large = Metric(name="waybook_calls_total", value=1, labels={"tool": "x" * MAX_BYTES})
    shared.write(0, (2.0, [large]))
    assert shared.read(0) == (1.0, [calls(1)])
    assert shared.read(1) is None
    assert "too large" in caplog.text
