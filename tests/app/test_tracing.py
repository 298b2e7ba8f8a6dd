"""Traces of tool calls: a span for each call, and one for each of its messages to the database."""

import json
import logging
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from org_env import OrgEnv
from waybook.cli.logs import JsonLineFormatter
from waybook.integrations.open_telemetry import MESSAGE, OpenTelemetryTracer
from waybook.tracing import TRACING

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01"}


def start_tracing(sampler: Sampler) -> InMemorySpanExporter:
    provider, exporter = TracerProvider(sampler=sampler), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    TRACING.tracer = OpenTelemetryTracer(provider.get_tracer("test"))
    return exporter


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """Yield an exporter that keeps all spans."""
    yield start_tracing(ALWAYS_ON)
    TRACING.tracer = None


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


async def test_trace_span_of_call_has_child_span_per_database_message(
    world: OrgEnv, spans: InMemorySpanExporter
) -> None:
    plan = await world.agent.plan()
    spans.clear()
    await world.agent.take(plan)
    *messages, call = spans.get_finished_spans()
    shown = attributes(call)
    assert call.name == shown["waybook.tool"] == "get_next_step"
    assert shown["waybook.org"] == str(world.agent.org_id)
    assert (shown["waybook.plan"], shown["waybook.outcome"]) == (plan["planId"], "ok")
    assert {"waybook.step"} <= shown.keys()
    assert messages
    for message in messages:
        assert message.name == MESSAGE
        assert message.parent is not None
        assert call.context is not None
        assert message.parent.span_id == call.context.span_id
        assert attributes(message).keys() == {"db.system.name", "waybook.statements"}


async def test_trace_span_of_failed_call_has_the_error_code(
    world: OrgEnv, spans: InMemorySpanExporter
) -> None:
    await world.agent.refused("get_plan_status", planId="nowhere")
    call = spans.get_finished_spans()[-1]
    assert attributes(call)["error.type"] == attributes(call)["waybook.outcome"] == "NOT_FOUND"
    assert not call.status.is_ok


async def test_call_within_a_remote_trace_keeps_the_trace_id(
    world: OrgEnv, spans: InMemorySpanExporter
) -> None:
    assert TRACING.tracer is not None
    with TRACING.tracer.remote(PARENT):
        await world.agent.plan()
    assert {
        format(span.context.trace_id, "032x") for span in spans.get_finished_spans() if span.context
    } == {TRACE_ID}


async def test_call_not_sampled_for_tracing_has_no_spans(world: OrgEnv) -> None:
    exporter = start_tracing(ALWAYS_OFF)
    try:
        await world.agent.plan()
    finally:
        TRACING.tracer = None
    assert exporter.get_finished_spans() == ()


@pytest.mark.usefixtures("spans")
def test_log_lines_within_a_span_have_trace_and_span_id() -> None:
    record = logging.LogRecord("waybook", logging.INFO, "file.py", 1, "text", (), None)
    assert "traceId" not in json.loads(JsonLineFormatter().format(record))
    assert TRACING.tracer is not None
    with TRACING.tracer.remote(PARENT), TRACING.tracer.call("ping"):
        line = json.loads(JsonLineFormatter().format(record))
    assert line["traceId"] == TRACE_ID
    assert len(line["spanId"]) == 16
