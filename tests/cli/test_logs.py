"""Log output: one JSON line per record, without secrets."""

import json
import logging

from waybook.cli.logs import JsonLineFormatter, _log_to
from waybook.core.hidden_characters import contains_hidden
from waybook.settings import LoadedSettings, Settings

TOKEN = "wb_" + "a1" * 20


def make_record(
    message: str, *values: object, error: BaseException | None = None
) -> logging.LogRecord:
    exc_info = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("waybook", logging.ERROR, "file.py", 1, message, values, exc_info)


def _missing() -> None:
    raise KeyError(TOKEN)


def broken() -> Exception:
    """Return an exception that has another exception as its cause."""
    try:
        try:
            _missing()
        except KeyError as error:
            raise ValueError(f"Authorization: Bearer hunter2 and {TOKEN}") from error
    except ValueError as error:
        return error
    raise AssertionError


def test_json_log_formatter_writes_one_line_per_record() -> None:
    line = JsonLineFormatter().format(make_record("a %s\nb", "plan"))
    assert "\n" not in line
    assert json.loads(line)["message"] == "a plan\nb"


def test_log_line_redacts_secret_in_message_and_values() -> None:
    record = json.loads(
        JsonLineFormatter().format(make_record(f"%s is not {TOKEN}", {"cookie": TOKEN}))
    )
    assert record["message"] == "{'cookie': '…'} is not wb_…"


def test_log_line_redacts_secret_in_stack_trace_and_cause() -> None:
    line = JsonLineFormatter().format(make_record("broke", error=broken()))
    record = json.loads(line)
    assert "KeyError: 'wb_…'" in record["trace"]
    assert "ValueError: Authorization: Bearer …" in record["trace"]
    assert TOKEN not in line
    assert "hunter2" not in line


def test_log_handler_redacts_secrets_and_escapes_control_characters() -> None:
    handler = logging.StreamHandler()
    _log_to(handler, LoadedSettings(Settings(model_key="correct horse"), {}))
    line = handler.format(make_record("said %s", "correct horse, \x9b31m\u202e"))
    assert "correct horse" not in line
    assert json.loads(line)["message"] == "said …, \x9b31m\u202e"
    assert not contains_hidden(line)
