"""What `make test-controls` does: take each control away, alone, and see that a test notices.

`run.py [WORDS]`: those whose name or threat has these words, otherwise all. First the tests that
are named must pass with everything in its place. Then each control is taken out of a copy of the
tree, and one of its tests must fail; a tree that does not run any more proves nothing.
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

import postgres_servers  # noqa: E402 - the tests are found just above
import run_place  # noqa: E402
from project.controls import Control, controls  # noqa: E402

AT_ONCE = 2
SECONDS = 300
#: Whoever goes without one of these needs a server of their own, with that schema.
SCHEMA = ("src/waybook/store/migrations/", "src/waybook/store/maintenance/migrate.py")
LEFT_BEHIND = (".git", ".venv*", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
PLAINLY = ("-q", "-p", "no:cacheprovider", "--durations=0", "-rfE")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
#: What is said where the breaking itself is wrong.
NONSENSE = re.compile(
    r"^E +((?:Name|Syntax|Indentation|Import|ModuleNotFound|UnboundLocal)Error.*"
    r"|psycopg\.errors\.(?:SyntaxError|Undefined)\w*.*)",
    re.MULTILINE,
)
NOT_BEGUN = "ERROR at setup of"


class Tree:
    """A copy of everything, in which one control at a time is missing."""

    def __init__(self, root: Path) -> None:
        """Copy, and load what its tests need."""
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_BEHIND), symlinks=True)
        self.root = root
        command = [sys.executable, HERE / "one.py", root]
        pipe = subprocess.PIPE
        self.runner = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def without(self, control: Control) -> tuple[int | None, str]:
        """The code that pytest ends with, and what it says."""
        known = _environment(self.root)
        if any(one.file.startswith(SCHEMA) for one in control.breaks):
            del known[run_place.PLACE]
        asked = {"words": [*PLAINLY, "-x", *control.tests], "known": known, "seconds": SECONDS}
        assert self.runner.stdin is not None
        assert self.runner.stdout is not None
        with self._broken(control):
            self.runner.stdin.write(f"{json.dumps(asked)}\n")
            self.runner.stdin.flush()
            told = json.loads(self.runner.stdout.readline())
        return told["code"], told["said"]

    @contextmanager
    def _broken(self, control: Control) -> Iterator[None]:
        """Go without it inside; then all is as it was, to the time of what was changed."""
        paths = {self.root / one.file for one in control.breaks}
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
        try:
            for one in control.breaks:
                one.applied(self.root)
            yield
        finally:
            for path, (content, at) in before.items():
                path.write_bytes(content)
                os.utime(path, ns=(at, at))

    def close(self) -> None:
        """Let the runner go."""
        self.runner.communicate()


def main(words: str) -> int:
    """Break them all, say of each what came of it."""
    chosen = [c for c in controls() if words in f"{c.name} ({c.threat})"]
    began = time.monotonic()
    with _places():
        if not _all_in_place(chosen):
            return 1
        with _trees() as trees, ThreadPoolExecutor(AT_ONCE) as pool:
            told = list(pool.map(lambda control: _tried(control, trees), chosen))
    unnoticed = [name for name, noticed in told if not noticed]
    _say(f"{len(told) - len(unnoticed)} of {len(told)} noticed, {time.monotonic() - began:.0f} s")
    for name in unnoticed:
        _say(f"NOT NOTICED: {name}")
    return 1 if unnoticed or not told else 0


def _all_in_place(chosen: Iterable[Control]) -> bool:
    """Whether the tests pass that are to fail; what this compiles, the copies need not."""
    tests = sorted({test for control in chosen for test in control.tests})
    _say(f"{len(tests)} tests and files of tests, with every control in its place …")
    several = ("-n", str(AT_ONCE), "--dist", "worksteal")
    command = [sys.executable, "-m", "pytest", *PLAINLY, *several, *tests]
    done = subprocess.run(
        command, cwd=ROOT, env=_environment(ROOT), capture_output=True, text=True, check=False
    )
    if done.returncode:
        _say(done.stdout[-8_000:])
        _say("they must pass first")
    return done.returncode == 0


def _tried(control: Control, trees: SimpleQueue[Tree]) -> tuple[str, bool]:
    """Take a control away, and see who notices."""
    tree, began = trees.get(), time.monotonic()
    try:
        found, noticed = _verdict(*tree.without(control))
    finally:
        trees.put(tree)
    mark = "✓" if noticed else "✗"
    _say(f"{mark} {control.name}: {found} ({time.monotonic() - began:.1f} s)")
    return control.name, noticed


def _verdict(code: int | None, said: str) -> tuple[str, bool]:
    """What a run says of the control that it went without, and whether it was missed."""
    if code == 0:
        return "NOT NOTICED", False
    failed, nonsense = FAILED.search(said), NONSENSE.search(said)
    if code != 1 or failed is None or nonsense or NOT_BEGUN in said:
        why = nonsense[1] if nonsense else said[-2_000:]
        return f"NOT TRIED, for this does not run: {why}", False
    return f"noticed by {failed[1].partition('/')[2]}", True


def _environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree / "src"), "COLUMNS": "300"}


@contextmanager
def _places() -> Iterator[None]:
    """The servers, which all runs share."""
    alive = run_place.open_place()
    try:
        with ExitStack() as stack:
            stack.enter_context(postgres_servers.eighteen())
            if run_place.FIFTEEN.exists():
                stack.enter_context(postgres_servers.fifteen())
            yield
    finally:
        run_place.close_place(alive)


@contextmanager
def _trees() -> Iterator[SimpleQueue[Tree]]:
    """As many copies as there are runs at once."""
    with tempfile.TemporaryDirectory(prefix="waybook-controls-") as folder:
        Path(folder).chmod(0o755)
        made = [Tree(Path(folder) / str(number)) for number in range(AT_ONCE)]
        queue = SimpleQueue[Tree]()
        for tree in made:
            queue.put(tree)
        try:
            yield queue
        finally:
            for tree in made:
                tree.close()


def _say(said: str) -> None:
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
