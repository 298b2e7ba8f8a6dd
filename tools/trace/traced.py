"""Run `waybook` with a profile that notes which files of the package execute.

SIGUSR1 forgets what was noted, SIGUSR2 writes it to the file named by WAYBOOK_TRACE_OUT. Every
thread is profiled; the templates of pages count as files too.
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


def note(frame: FrameType, event: str, _: object) -> None:
    """Note the file of a function that is entered or resumed."""
    if event == "call":
        executed.add(frame.f_code.co_filename)


def forget(*_: object) -> None:
    """Start over."""
    executed.clear()


def write(*_: object) -> None:
    """Write the files noted so far, relative to the package."""
    files = sorted(name.removeprefix(PACKAGE) for name in {*executed} if name.startswith(PACKAGE))
    unfinished = OUT.with_suffix(".part")
    unfinished.write_text(json.dumps(files))
    unfinished.replace(OUT)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, forget)
    signal.signal(signal.SIGUSR2, write)
    threading.setprofile(note)
    sys.setprofile(note)
    sys.argv[0] = "waybook"
    runpy.run_module("waybook", run_name="__main__", alter_sys=True)
