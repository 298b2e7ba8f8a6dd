"""Logs: JSON lines on stderr while serving, silence while a person is at the command line."""

import json
import logging
import sys
from datetime import UTC, datetime

from waybook.settings import Found


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One record as one line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_while_serving(found: Found) -> None:
    """Write what is logged to stderr."""
    _log_to(logging.StreamHandler(sys.stderr), found.settings.log_level)


def log_quietly(found: Found) -> None:
    """Write logs only if a level was asked for; a person gets answers instead."""
    asked = found.sources["log_level"] != "default"
    handler = logging.StreamHandler(sys.stderr) if asked else logging.NullHandler()
    _log_to(handler, found.settings.log_level)


def _log_to(handler: logging.Handler, level: str) -> None:
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper())
