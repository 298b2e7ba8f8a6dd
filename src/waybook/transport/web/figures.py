"""The figures an operator watches: calls by tool and outcome, and what the call log dropped."""

from collections.abc import Iterator

from waybook.doorway import Dispatcher
from waybook.transport.web.metrics import Metric


def collect_metrics(dispatcher: Dispatcher) -> Iterator[Metric]:
    """What this process has counted since it started."""
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
