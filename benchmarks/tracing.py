"""CPU time to claim and submit a step if no call, a tenth of the calls, or every call is traced.

The modes run in turn on the same server, with 16 concurrent workers. They are compared with code
without hooks: the methods that look for a tracer are replaced by methods that do not. Spans are
encoded for OTLP as in production, and then discarded. CPU time is that of the Python process, with
the thread that exports spans.

In addition, the function calls of one worker are counted, which do not depend on other programs on
the machine. The count of the mode `sampled` is the weighted average of the counts with and without
spans. It does not include the thread that exports spans.

    python benchmarks/tracing.py [--cycles 1600] [--rounds 5]
"""

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from types import FrameType
from typing import Final
from unittest.mock import patch

import uvloop
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased

from limits import Check, finish
from step_cycle import STEPS, WORKERS, create_plans, work_through
from waybook.app.registry import TOOLS
from waybook.app.request.caller import Answer, Caller
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.bootstrap import Application, freeze_gc, start_application
from waybook.cli.demo.environment import temporary_database
from waybook.errors import RateLimited
from waybook.integrations.open_telemetry import OpenTelemetryTracer
from waybook.settings_reading import read_settings
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Database, Transaction
from waybook.store.driver.group_commit import Call
from waybook.store.driver.queries import Statement
from waybook.tracing import TRACING

#: Fraction of the calls that are traced in the mode `sampled`.
SAMPLED: Final = 0.1
#: For each mode, the maximum CPU time to claim and submit a step, as a multiple of the time without
#: tracing hooks.
LIMITS: Final = {"off": 1.05, "sampled": 1.15, "all": None}
#: Modes in which function calls are counted. In `unsampled`, there is a tracer, but no call is
#: traced.
COUNTED: Final = ("without", "off", "unsampled", "all")
#: Number of plans that the worker completes while its function calls are counted.
COUNTED_PLANS: Final = 10


class DiscardingExporter(SpanExporter):
    """Exporter that encodes spans without sending them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


async def dispatch_without_hook(
    self: ServerDispatcher, caller: Caller, tool_name: str, arguments: Mapping[str, object]
) -> Answer:
    tool = TOOLS[tool_name]
    try:
        self.require_capacity(caller, tool.name)
    except RateLimited as error:
        return Answer(error.as_json(), is_error=True)
    return await self._dispatch(tool, caller, arguments)


async def commit_without_hook(self: Database, call: Call) -> Results:
    return await self._groups.commit(call)


async def send_without_hook(self: Transaction, *statements: Statement | str) -> Results:
    return await self._send(statements)


@contextmanager
def without_hooks() -> Iterator[None]:
    """During the block, use methods that do not look for a tracer."""
    with (
        patch.object(ServerDispatcher, "dispatch", dispatch_without_hook),
        patch.object(Database, "commit", commit_without_hook),
        patch.object(Transaction, "send", send_without_hook),
    ):
        yield


@contextmanager
def tracing(mode: str) -> Iterator[None]:
    """During the block, trace calls as `mode` requires."""
    if mode == "without":
        with without_hooks():
            yield
        return
    if mode == "off":
        yield
        return
    rate = {"sampled": SAMPLED, "unsampled": 0.0}
    sampler = ALWAYS_ON if mode == "all" else ParentBased(TraceIdRatioBased(rate[mode]))
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(BatchSpanProcessor(DiscardingExporter()))
    TRACING.tracer = OpenTelemetryTracer(provider.get_tracer("waybook"))
    try:
        yield
        provider.force_flush()
    finally:
        TRACING.tracer = None
        provider.shutdown()


async def measure(system: Application, mode: str, turn: int, each: int) -> float:
    """Return the CPU microseconds to claim and submit a step in this mode."""
    plans = [await create_plans(system, each) for _ in range(WORKERS)]
    with tracing(mode):
        before = time.process_time()
        await asyncio.gather(
            *[work_through(system, f"{mode}-{turn}-{n}", p) for n, p in enumerate(plans)]
        )
        used = time.process_time() - before
    return used * 1e6 / (WORKERS * each * STEPS)


async def count_calls(system: Application, mode: str, turn: int) -> float:
    """Return how many function calls a worker makes to claim and submit a step in this mode."""
    plans, counted = await create_plans(system, 1), 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event in {"call", "c_call"}

    with tracing(mode):
        sys.setprofile(note)
        try:
            await work_through(system, f"counted-{mode}-{turn}", plans)
        finally:
            sys.setprofile(None)
    return counted / STEPS


async def main(cycles: int, rounds: int) -> None:
    """Measure all modes in turn; do not count the first round."""
    each, costs = max(1, cycles // (WORKERS * STEPS)), defaultdict[str, list[float]](list)
    with temporary_database() as folder:
        settings = read_settings({"data_dir": folder, "pool_size": WORKERS}, {}).settings
        async with start_application(settings, sweeping=False) as system:
            freeze_gc()
            modes = ["without", *LIMITS]
            for turn in range(rounds + 1):
                # The database grows during a round, so each round begins with another mode.
                for place in range(len(modes)):
                    mode = modes[(place + turn) % len(modes)]
                    costs[mode].append(await measure(system, mode, turn, each))
            counts = [
                {mode: await count_calls(system, mode, turn) for mode in COUNTED}
                for turn in range(COUNTED_PLANS)
            ]
    # Take the minimum, because some rounds have further function calls: for an answer of the
    # database that arrives in pieces, or for writing the call log.
    calls = {mode: min(count[mode] for count in counts) for mode in COUNTED}
    calls["sampled"] = SAMPLED * calls["all"] + (1 - SAMPLED) * calls["unsampled"]
    report({mode: values[1:] for mode, values in costs.items()}, calls)


def report(costs: Mapping[str, Sequence[float]], calls: Mapping[str, float]) -> None:
    """Print the medians; exit with code 1 if a limit is missed."""
    print(f"{'tracing':12}{'Python µs/cycle':>18}{'function calls/cycle':>24}")
    for mode, values in costs.items():
        print(f"{mode:12}{median(values):18.0f}{calls[mode]:24.0f}")
    checks = [
        Check(
            name=f"CPU, tracing {mode} : without hooks",
            rounds=[
                value / base for value, base in zip(costs[mode], costs["without"], strict=True)
            ],
            direction="<=",
            limit=limit,
        )
        for mode, limit in LIMITS.items()
    ]
    checks += [
        Check(
            name=f"function calls, tracing {mode} : without hooks",
            rounds=[calls[mode] / calls["without"]],
            direction="<=",
            limit=limit,
        )
        for mode, limit in LIMITS.items()
    ]
    finish("tracing", checks, calls=calls)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    uvloop.run(main(arguments.cycles, arguments.rounds))
