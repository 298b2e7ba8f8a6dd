"""Server that forks a process for each test run, so that packages are imported only once.

Importing third-party packages takes longer than most tests. Waybook's own modules are imported
after the fork, because each test run changes some of them. `fork_server.py TREE` reads one JSON
line per test run from standard input, and answers with one JSON line: the exit code of pytest (null
after a timeout) and its output.
"""

import importlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

PRELOADED = ("httpx2", "hypothesis", "jinja2", "jwt", "mcp.server.lowlevel", "mcp.client")
PRELOADED += ("psycopg_pool", "pydantic", "rich.console", "starlette.applications", "uvicorn")
#: Hide the warning that pytest cannot rewrite the assertions of modules which are already imported.
#: They are third-party packages, for which this is not needed.
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


def main(tree: Path) -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    assert "waybook" not in sys.modules
    for line in sys.stdin:
        run = json.loads(line)
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if not child:
                _run(tree, run["arguments"], run["environment"], output.fileno())
            code = _wait_for(child, run["seconds"])
            output.seek(0)
            answer = {"code": code, "output": output.read().decode("utf-8", "replace")}
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def _run(tree: Path, arguments: list[str], environment: dict[str, str], output: int) -> None:
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(tree)
    # Write no bytecode. Python compares the time and the size of source and bytecode, and removing
    # a control may change neither, so the bytecode would not be replaced. The copy already has the
    # bytecode of unchanged sources.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(tree / "src")]
    code = pytest.main([*QUIET, *arguments])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code))


def _wait_for(child: int, seconds: float) -> int | None:
    """Return the exit code of a child process; after a timeout, kill it and return None."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
