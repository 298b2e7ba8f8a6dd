"""Remove each security control in turn; a test must fail: `make harness NAME=test-controls`.

`run.py [TEXT]` selects the controls whose name or threat contains the text (default: all). The
tests of these controls must first pass on the unchanged source. Then each control is removed from a
copy of the source, and at least one of its tests must fail. A syntax or import error does not count
as a failed test, because it shows only that the edited source is invalid.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "support")]

import missing_programs  # noqa: E402 - the path is set above
import postgres_servers  # noqa: E402
import run_place  # noqa: E402
from project.controls import Control, controls  # noqa: E402

PARALLEL_RUNS = 2
MAX_RUN_SECONDS = 300
NOTHING_SELECTED_EXIT = 2
#: Files that define the database schema. If a control in one of them is removed, its tests cannot
#: use the shared database server.
SCHEMA = ("src/waybook/store/migrations/", "src/waybook/store/maintenance/migrate.py")
NOT_COPIED = (".git", ".venv*", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
PYTEST_OPTIONS = ("-q", "-p", "no:cacheprovider", "--durations=0", "-rfE")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
#: Pattern for error messages that show an edited source to be invalid.
INVALID_REMOVAL = re.compile(
    r"^E +((?:Name|Syntax|Indentation|Import|ModuleNotFound|UnboundLocal)Error.*"
    r"|psycopg\.errors\.(?:SyntaxError|Undefined)\w*.*)",
    re.MULTILINE,
)
SETUP_FAILED = "ERROR at setup of"


class Tree:
    """Copy of the repository, from which one security control at a time is removed."""

    def __init__(self, root: Path) -> None:
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        self.root = root
        command = [sys.executable, HERE / "fork_server.py", root]
        pipe = subprocess.PIPE
        self.runner = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def run_without(self, control: Control) -> tuple[int | None, str]:
        """Remove a security control, run its tests, and put it back; return exit code and output.

        The exit code and the output are those of pytest.
        """
        environment = _environment(self.root)
        if any(mutation.file.startswith(SCHEMA) for mutation in control.breaks):
            del environment[run_place.PLACE]
        run = {
            "arguments": [*PYTEST_OPTIONS, "-x", *control.tests],
            "environment": environment,
            "seconds": MAX_RUN_SECONDS,
        }
        assert self.runner.stdin is not None
        assert self.runner.stdout is not None
        with self._removed(control):
            self.runner.stdin.write(f"{json.dumps(run)}\n")
            self.runner.stdin.flush()
            answer = json.loads(self.runner.stdout.readline())
        return answer["code"], answer["output"]

    @contextmanager
    def _removed(self, control: Control) -> Iterator[None]:
        """During the block, remove a security control; then restore files and timestamps."""
        paths = {self.root / mutation.file for mutation in control.breaks}
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
        try:
            for mutation in control.breaks:
                mutation.applied(self.root)
            yield
        finally:
            for path, (content, modified_at) in before.items():
                path.write_bytes(content)
                os.utime(path, ns=(modified_at, modified_at))

    def close(self) -> None:
        """Close the input of the fork server, and wait until it has ended."""
        self.runner.communicate()


def main(text: str) -> int:
    selected = [c for c in controls() if text in f"{c.name} ({c.threat})"]
    if not selected:
        sys.stderr.write(f"no control has {text!r} in its name or threat; see tools/controls/\n")
        return NOTHING_SELECTED_EXIT
    started = time.monotonic()
    with _shared_servers():
        if not _pass_unchanged(selected):
            return 1
        with _copies() as trees, ThreadPoolExecutor(PARALLEL_RUNS) as pool:
            results = list(pool.map(lambda control: _check(control, trees), selected))
    unnoticed = [name for name, noticed in results if not noticed]
    noticed_count, seconds = len(results) - len(unnoticed), time.monotonic() - started
    _print(f"{noticed_count} of {len(results)} noticed, {seconds:.0f} s")
    for name in unnoticed:
        _print(f"NOT NOTICED: {name}")
    return 1 if unnoticed else 0


def _pass_unchanged(selected: Iterable[Control]) -> bool:
    """Return whether the tests of these controls pass on the unchanged source.

    The tests also compile the source, so that copies of the repository contain the bytecode.
    """
    tests = sorted({test for control in selected for test in control.tests})
    _print(f"{len(tests)} tests and test files, with every control in place …")
    parallel = ("-n", str(PARALLEL_RUNS), "--dist", "worksteal")
    command = [sys.executable, "-m", "pytest", *PYTEST_OPTIONS, *parallel, *tests]
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(ROOT), capture_output=True, text=True, check=False
    )
    if done.returncode:
        _print(done.stdout[-8_000:])
        _print("these tests must pass before a control is removed")
    return done.returncode == 0


def _check(control: Control, trees: SimpleQueue[Tree]) -> tuple[str, bool]:
    """Remove a security control, run its tests, and print the result.

    Return the name of the control, and whether a test failed.
    """
    tree, started = trees.get(), time.monotonic()
    try:
        result, noticed = _judge(*tree.run_without(control))
    finally:
        trees.put(tree)
    mark = "✓" if noticed else "✗"
    _print(f"{mark} {control.name}: {result} ({time.monotonic() - started:.1f} s)")
    return control.name, noticed


def _judge(code: int | None, output: str) -> tuple[str, bool]:
    """Return a text about a test run without the control, and whether a test failed."""
    if code == 0:
        return "NOT NOTICED", False
    failed, invalid = FAILED.search(output), INVALID_REMOVAL.search(output)
    if code != 1 or failed is None or invalid or SETUP_FAILED in output:
        reason = invalid[1] if invalid else output[-2_000:]
        return f"NOT TESTED, the changed tree does not run: {reason}", False
    return f"noticed by {failed[1].partition('/')[2]}", True


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "300"}


@contextmanager
def _shared_servers() -> Iterator[None]:
    """Start database servers for all test runs, and stop them at the end."""
    alive = run_place.open_place()
    try:
        with ExitStack() as stack:
            stack.enter_context(postgres_servers.eighteen())
            if missing_programs.FIFTEEN.exists():
                stack.enter_context(postgres_servers.fifteen())
            yield
    finally:
        run_place.close_place(alive)


@contextmanager
def _copies() -> Iterator[SimpleQueue[Tree]]:
    """Yield a queue with copies of the repository, one for each of the concurrent test runs."""
    with tempfile.TemporaryDirectory(prefix="waybook-controls-") as folder:
        Path(folder).chmod(0o755)
        trees = [Tree(Path(folder) / str(number)) for number in range(PARALLEL_RUNS)]
        queue = SimpleQueue[Tree]()
        for tree in trees:
            queue.put(tree)
        try:
            yield queue
        finally:
            for tree in trees:
                tree.close()


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
