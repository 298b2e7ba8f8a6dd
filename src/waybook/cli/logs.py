"""Logging setup. Servers log JSON lines to stderr, and other commands do not log by default.

Secrets are redacted.
"""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from waybook.app.operations.settings_display import known_secrets
from waybook.cli.output import escape_json
from waybook.redaction import redact, redactor
from waybook.settings import LoadedSettings
from waybook.tracing import TRACING


class JsonLineFormatter(logging.Formatter):
    def __init__(self, redact: Callable[[str], str] = redact) -> None:
        """`redact` removes secrets from messages and tracebacks."""
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        if TRACING.tracer is not None:
            line |= TRACING.tracer.ids()
        if record.exc_info:
            line["trace"] = self._redact(self.formatException(record.exc_info))
        return escape_json(json.dumps(line, ensure_ascii=False))


def configure_server_logging(loaded: LoadedSettings) -> None:
    _log_to(logging.StreamHandler(sys.stderr), loaded)


def configure_command_logging(loaded: LoadedSettings) -> None:
    """Log to stderr if a log level was set. Otherwise, discard all logs."""
    is_level_set = loaded.sources["log_level"] != "default"
    handler = logging.StreamHandler(sys.stderr) if is_level_set else logging.NullHandler()
    _log_to(handler, loaded)


def _log_to(handler: logging.Handler, loaded: LoadedSettings) -> None:
    handler.setFormatter(JsonLineFormatter(redactor(known_secrets(loaded.settings))))
    logging.basicConfig(handlers=[handler], level=loaded.settings.log_level.upper())
