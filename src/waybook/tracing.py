"""Trace tool calls and their round trips to the database with OpenTelemetry.

Spans contain ids, counts and error codes, but no text that a caller sent.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

#: Fields of the W3C trace context, in HTTP headers and in the metadata of MCP messages.
TRACE_FIELDS: Final = ("traceparent", "tracestate")
_TRACE_HEADERS: Final = frozenset(name.encode() for name in TRACE_FIELDS)
_MAX_FIELD_LENGTH: Final = 512
_ID_FIELDS: Final = {"waybook.plan": "planId", "waybook.step": "stepId", "waybook.run": "runId"}
_MAX_ID_LENGTH: Final = 64


class _CallSpan(Protocol):
    def is_recording(self) -> bool:
        """Return whether the span is sampled. If not, its attributes need not be set."""

    def set_attributes(self, attributes: Mapping[str, str], /) -> None: ...

    def mark_failed(self) -> None: ...


class _Tracer(Protocol):
    def call(self, tool: str, /) -> AbstractContextManager[_CallSpan]:
        """Return the span of a tool call. It is the current span within its `with` block."""

    def message(self, statements: int, /) -> AbstractContextManager[None] | None: ...

    def remote(self, fields: Mapping[str, str], /) -> AbstractContextManager[None]:
        """Add the spans of the block to the trace that these fields name."""

    def ids(self) -> Mapping[str, str]: ...


class _Tracing:
    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: _Tracer | None = None


#: The tracer of this process, if tracing is on.
TRACING: Final = _Tracing()


def describe_call(
    span: _CallSpan,
    org_id: object,
    outcome: str,
    arguments: Mapping[str, object],
    reply: Mapping[str, object],
) -> None:
    if not span.is_recording():
        return
    attributes = {"waybook.org": str(org_id), "waybook.outcome": outcome}
    for attribute, field in _ID_FIELDS.items():
        named = reply.get(field) or arguments.get(field)
        if isinstance(named, str) and len(named) <= _MAX_ID_LENGTH:
            attributes[attribute] = named
    if outcome != "ok":
        attributes["error.type"] = outcome
        span.mark_failed()
    span.set_attributes(attributes)


def trace_fields(
    headers: Iterable[tuple[bytes, bytes]], message: Mapping[str, object]
) -> dict[str, str]:
    """Return the trace context of an MCP message: from its metadata, or else the HTTP headers.

    >>> trace_fields([(b"traceparent", b"00-a")], {"params": {"_meta": {"tracestate": "b=1"}}})
    {'traceparent': '00-a'}
    >>> trace_fields([(b"traceparent", b"00-a")], {"params": {"_meta": {"traceparent": "00-b"}}})
    {'traceparent': '00-b'}
    """
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or "traceparent" not in meta:
        fields = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in _TRACE_HEADERS
        }
    else:
        fields = meta
    return {
        name: value
        for name in TRACE_FIELDS
        if isinstance(value := fields.get(name), str) and len(value) <= _MAX_FIELD_LENGTH
    }
