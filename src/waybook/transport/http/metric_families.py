"""Names, kinds and help texts of all metrics, and the Prometheus text format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

_Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


class _Family(NamedTuple):
    kind: _Kind
    help: str
    labels: Sequence[str] = ()
    #: Whether each worker process has its own samples. Other samples are added up.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    name: str
    value: float | Buckets
    labels: Mapping[str, str] = field(default_factory=dict)

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
    for name, group in groupby(
        sorted(metrics, key=lambda metric: order[metric.name]), key=attrgetter("name")
    ):
        family = FAMILIES[name]
        lines += [f"# HELP {name} {_escape_label(family.help)}", f"# TYPE {name} {family.kind}"]
        lines += [line for metric in group for line in _lines(metric)]
    return "".join(f"{line}\n" for line in lines)


def _lines(metric: Metric) -> Iterator[str]:
    name, labels, value = metric.name, metric.labels, metric.value
    if not isinstance(value, Buckets):
        yield f"{name}{_format_labels(labels)} {_number(value)}"
        return
    bounds = [*map(_number, value.bounds), "+Inf"]
    for bound, count in zip(bounds, accumulate(value.counts), strict=True):
        yield f"{name}_bucket{_format_labels({**labels, 'le': bound})} {count}"
    yield f"{name}_sum{_format_labels(labels)} {_number(value.total)}"
    yield f"{name}_count{_format_labels(labels)} {sum(value.counts)}"


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
