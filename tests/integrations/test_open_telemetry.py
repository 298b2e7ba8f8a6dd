"""Export of traces: settings in environment variables, and exported spans."""

import json
import os
import subprocess
import sys

import pytest

from patience import PATIENCE_SECONDS
from waybook.errors import Misconfigured
from waybook.integrations import factory
from waybook.integrations.factory import open_tracing
from waybook.tracing import TRACING

#: Program that records the trace of a call. It runs in its own process, because a process can set
#: its provider of spans only once.
PROGRAM = """
import asyncio, os
from waybook.integrations.factory import open_tracing
from waybook.tracing import TRACING

async def main():
    async with open_tracing(os.environ):
        with TRACING.tracer.call("ping"):
            with TRACING.tracer.message(3):
                pass
    assert TRACING.tracer is None

asyncio.run(main())
"""


def run(**variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "OTEL_TRACES_EXPORTER": "console", **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return done.stdout


def test_trace_spans_are_exported_before_the_process_ends() -> None:
    output, decoder, spans = (
        run(OTEL_RESOURCE_ATTRIBUTES="team=red").strip(),
        json.JSONDecoder(),
        [],
    )
    while output:
        span, end = decoder.raw_decode(output)
        spans.append(span)
        output = output[end:].strip()
    message, call = spans
    assert (message["name"], call["name"]) == ("database message", "ping")
    assert message["parent_id"] == call["context"]["span_id"]
    assert message["attributes"]["waybook.statements"] == 3
    resource = call["resource"]["attributes"]
    assert (resource["service.name"], resource["team"]) == ("waybook", "red")


def test_tracing_service_name_is_read_from_the_environment() -> None:
    assert '"service.name": "books"' in run(OTEL_SERVICE_NAME="books")


async def test_tracing_is_off_without_configuration() -> None:
    async with open_tracing({}):
        assert TRACING.tracer is None


async def test_unknown_trace_exporter_is_refused() -> None:
    with pytest.raises(Misconfigured, match="one of otlp, console"):
        async with open_tracing({"OTEL_TRACES_EXPORTER": "jaeger"}):
            pass


async def test_error_for_missing_tracing_packages_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError(name="opentelemetry.sdk")

    monkeypatch.setattr(factory, "import_module", missing)
    with pytest.raises(Misconfigured, match=r"opentelemetry\.sdk is missing: install waybook"):
        async with open_tracing({"OTEL_TRACES_EXPORTER": "otlp"}):
            pass
