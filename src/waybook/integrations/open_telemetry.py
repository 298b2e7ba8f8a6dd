"""Create spans with OpenTelemetry, and export them.

The standard environment variables of OpenTelemetry configure the export.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from types import TracebackType
from typing import Final, Self

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from waybook.errors import Misconfigured

MESSAGE: Final = "database message"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class _OpenTelemetryCall:
    """Span of a tool call. Within the block, it is the current span."""

    __slots__ = ("_outer", "_recording", "_span", "_token")

    def __init__(self, span: Span, outer: Context) -> None:
        self._span = span
        self._outer = outer
        self._recording = span.is_recording()

    def __enter__(self) -> Self:
        self._token = context.attach(trace.set_span_in_context(self._span, self._outer))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        context.detach(self._token)
        if self._recording:
            _end(self._span, kind)

    def is_recording(self) -> bool:
        return self._recording

    def set_attributes(self, attributes: Mapping[str, str], /) -> None:
        self._span.set_attributes(attributes)

    def mark_failed(self) -> None:
        self._span.set_status(StatusCode.ERROR)


class OpenTelemetryTracer:
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def call(self, tool: str, /) -> _OpenTelemetryCall:
        outer = context.get_current()
        span = self._tracer.start_span(tool, outer, SpanKind.SERVER)
        call = _OpenTelemetryCall(span, outer)
        if call.is_recording():
            span.set_attribute("waybook.tool", tool)
        return call

    def message(self, statements: int, /) -> AbstractContextManager[None] | None:
        """Return the span of SQL statements sent together, or None if the call is not sampled."""
        return self._message(statements) if trace.get_current_span().is_recording() else None

    @contextmanager
    def _message(self, statements: int) -> Iterator[None]:
        span = self._tracer.start_span(MESSAGE, kind=SpanKind.CLIENT)
        span.set_attribute("db.system.name", "postgresql")
        span.set_attribute("waybook.statements", statements)
        kind: type[BaseException] | None = None
        try:
            yield
        except BaseException as error:
            kind = type(error)
            raise
        finally:
            _end(span, kind)

    @contextmanager
    def remote(self, fields: Mapping[str, str], /) -> Iterator[None]:
        """Add the spans of the block to a trace that another process began."""
        token = context.attach(_PROPAGATOR.extract(fields))
        try:
            yield
        finally:
            context.detach(token)

    def ids(self) -> Mapping[str, str]:
        current = trace.get_current_span().get_span_context()
        if not current.is_valid:
            return {}
        return {
            "traceId": trace.format_trace_id(current.trace_id),
            "spanId": trace.format_span_id(current.span_id),
        }


def _end(span: Span, kind: type[BaseException] | None) -> None:
    if kind is not None:
        # The text of an exception may contain private values, so only its type is recorded.
        span.set_attribute("error.type", kind.__name__)
        span.set_status(StatusCode.ERROR)
    span.end()


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
        self._provider.shutdown()
