"""Run `waybook` with a profile function that records the executed source files.

SIGUSR1 clears the record. SIGUSR2 writes it to the file named by WAYBOOK_TRACE_OUT. All threads are
profiled. The record also contains page templates.
"""

import importlib.util
import json
import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

SPEC = importlib.util.find_spec("waybook")
assert SPEC
assert SPEC.origin
PACKAGE = str(Path(SPEC.origin).parent) + os.sep
OUT = Path(os.environ["WAYBOOK_TRACE_OUT"])

executed: set[str] = set()


def record(frame: FrameType, event: str, _: object) -> None:
    """Record the source file of a function that is called or resumed."""
    if event == "call":
        executed.add(frame.f_code.co_filename)


def clear(*_: object) -> None:
    executed.clear()


def write(*_: object) -> None:
    """Write the names of the recorded files, relative to the folder of the package."""
    files = sorted(name.removeprefix(PACKAGE) for name in {*executed} if name.startswith(PACKAGE))
    unfinished = OUT.with_suffix(".part")
    unfinished.write_text(json.dumps(files))
    unfinished.replace(OUT)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, clear)
    signal.signal(signal.SIGUSR2, write)
    threading.setprofile(record)
    sys.setprofile(record)
    sys.argv[0] = "waybook"
    runpy.run_module("waybook", run_name="__main__", alter_sys=True)
