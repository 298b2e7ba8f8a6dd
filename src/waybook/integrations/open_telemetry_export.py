"""Exports OpenTelemetry spans, configured by the standard environment variables."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from waybook.errors import Misconfigured
from waybook.integrations.open_telemetry import OpenTelemetryTracer

_EXPORTERS: Final[dict[str, Callable[[], SpanExporter]]] = {
    "otlp": OTLPSpanExporter,
    "console": ConsoleSpanExporter,
}


class TraceExport:
    """Exports the spans of a tracer in the background, until it is closed."""

    def __init__(self, exporter: str) -> None:
        if exporter not in _EXPORTERS:
            known = ", ".join(_EXPORTERS)
            raise Misconfigured(f"OTEL_TRACES_EXPORTER must be one of {known}, or none")
        own = Resource({"service.name": "waybook", "service.version": version("waybook")})
        self._provider = TracerProvider(
            resource=Resource.create().merge(own).merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(_EXPORTERS[exporter]()))
        # Set the global provider too, because the MCP library also creates spans.
        trace.set_tracer_provider(self._provider)
        self.tracer = OpenTelemetryTracer(self._provider.get_tracer("waybook"))

    def close(self) -> None:
        """Export the remaining spans, and stop."""
        self._provider.shutdown()
