"""Report of a failed test whose traceback pytest cannot format."""

import traceback
from collections.abc import Generator
from typing import Literal, cast

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """If pytest cannot format the traceback of an error, report the test with a plain traceback.

    Otherwise this second error would end the whole test run. Python before 3.11.5 is known to raise
    `SystemError` in `ast.parse`, if the garbage collector runs during the call and a finalizer also
    parses something.
    """
    try:
        return (yield)
    except Exception as error:  # noqa: BLE001  # whatever it is, the other tests still run
        failures = [error] if call.excinfo is None else [call.excinfo.value, error]
        text = "\n\n".join(map(_plain_text, failures))
        keywords: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
        when = cast("Literal['setup', 'call', 'teardown']", call.when)
        return pytest.TestReport(item.nodeid, item.location, keywords, "failed", text, when)


def _plain_text(failure: BaseException) -> str:
    """Return an error with its traceback, without parsing source code as pytest does."""
    frames = traceback.extract_tb(failure.__traceback__)
    places = [f"{frame.filename}:{frame.lineno}: in {frame.name}" for frame in frames]
    return "\n".join([*places, f"{type(failure).__name__}: {failure}"])
