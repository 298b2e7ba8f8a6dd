"""Runs of tests in a tree, begun by a process that has loaded what they need beside the tree.

To load that takes longer than most of these tests. So it is done once, and every run is a fork of
this process, in which nothing of the tree itself may be loaded. `one.py TREE` reads a run from
each line, as JSON, and answers with the code of pytest, when it has one, and what it said.
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

KNOWN_BEFORE = ("httpx2", "hypothesis", "jinja2", "jwt", "mcp.server.lowlevel", "mcp.client")
KNOWN_BEFORE += ("psycopg_pool", "pydantic", "rich.console", "starlette.applications", "uvicorn")
#: They are not ours, so nobody minds that their assertions say less.
CALMLY = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


def main(tree: Path) -> None:
    """Run what each line asks for, until there are no more."""
    for name in KNOWN_BEFORE:
        importlib.import_module(name)
    assert "waybook" not in sys.modules
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if not child:
                _run(tree, asked["words"], asked["known"], said.fileno())
            code = _waited(child, asked["seconds"])
            said.seek(0)
            told = {"code": code, "said": said.read().decode("utf-8", "replace")}
        sys.stdout.write(f"{json.dumps(told)}\n")
        sys.stdout.flush()


def _run(tree: Path, words: list[str], known: dict[str, str], said: int) -> None:
    for descriptor in (1, 2):
        os.dup2(said, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(known)
    os.chdir(tree)
    # What is compiled counts by its source's time and size, which a change may leave alike; what
    # was compiled before came along with the tree.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(tree / "src")]
    code = pytest.main([*CALMLY, *words])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code))


def _waited(child: int, seconds: float) -> int | None:
    """The code a run ended with, or none: then it took too long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
