"""Run all benchmarks one after the other, and print which limits were kept: `make bench`.

Every benchmark runs, even if another one misses a limit. The exit code is 1 if a benchmark failed.
Each benchmark with figures for docs/evidence/performance.md stores them in `build/bench/NAME.json`;
the verdicts and outputs of all benchmarks are in `build/bench/summary.json`.

    python benchmarks/run_all.py [NAME ...]
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from limits import RESULTS, ROOT, save

FOLDER: Final = Path(__file__).parent
#: Commands by name, in the order in which they run.
BENCHMARKS: Final[Mapping[str, Sequence[str | Path]]] = {
    "first_list": [FOLDER / "first_list.py"],
    "hook": [FOLDER / "hook.py"],
    "step_cycle": [FOLDER / "step_cycle.py"],
    "step_cycle_cold": [FOLDER / "step_cycle.py", "--cold"],
    "peers": [FOLDER / "peers" / "run.py"],
    "mcp_http": [FOLDER / "mcp_http.py"],
    "workers": [FOLDER / "workers.py"],
    "job_cycle": [FOLDER / "job_cycle.py"],
    "tracing": [FOLDER / "tracing.py"],
    "open_stage": [FOLDER / "open_stage.py"],
    "memory": [FOLDER / "memory.py"],
    "storage": [FOLDER / "storage.py"],
    "report": [FOLDER / "report.py"],
    "layout": [FOLDER / "layout.py"],
    "pages": [FOLDER / "pages.py"],
    "live": [FOLDER / "live.py"],
    "flood": [FOLDER / "flood.py"],
    "waiting": [FOLDER / "waiting.py"],
    "work_endpoint": [FOLDER / "work_endpoint.py"],
    "agent_tokens": [FOLDER / "agent_tokens.py"],
    "search_scale": [FOLDER / "search_scale.py"],
    "lists": [FOLDER / "lists.py", "--plans", "1000", "10000", "100000"],
}
#: Folders with modules that benchmarks share with tests.
SHARED: Final = os.pathsep.join(str(ROOT / folder) for folder in ("tests", "tests/support"))
#: Maximum duration of a benchmark in seconds.
MAX_SECONDS: Final = 1_200.0
#: The summary shows those lines of a benchmark's output that contain one of these words.
MARKS: Final = ("limit", "goal", "not reached", "not installed")


class Outcome(NamedTuple):
    """Exit code of a benchmark, its duration in seconds, and its output."""

    name: str
    code: int
    seconds: float
    output: Sequence[str]

    @property
    def verdict(self) -> str:
        return "ok" if self.code == 0 else f"FAILED with exit code {self.code}"


def run(name: str, command: Sequence[str | Path]) -> Outcome:
    print(f"\n== {name}", flush=True)
    (RESULTS / f"{name}.json").unlink(missing_ok=True)
    started, output = time.perf_counter(), list[str]()
    with subprocess.Popen(
        ["timeout", str(MAX_SECONDS), sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": SHARED},
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                output.append(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    return Outcome(name, process.returncode, time.perf_counter() - started, output)


def summarize(outcomes: Sequence[Outcome]) -> str:
    """Return the verdict of each benchmark, and the lines about its limits and goals."""
    lines = ["", "== summary"]
    for outcome in outcomes:
        lines.append(f"{outcome.name:14}{outcome.verdict} ({outcome.seconds:.0f} s)")
        lines += [f"    {line}" for line in outcome.output if any(m in line for m in MARKS)]
        if outcome.code and outcome.output:
            lines.append(f"    {outcome.output[-1]}")
    return "\n".join(lines)


def main(names: Sequence[str]) -> int:
    """Run the benchmarks, print the summary, and return the exit code."""
    chosen = [name for name in BENCHMARKS if not names or name in names]
    outcomes = [run(name, BENCHMARKS[name]) for name in chosen]
    print(summarize(outcomes))
    save(
        "summary",
        outcomes=[{**outcome._asdict(), "verdict": outcome.verdict} for outcome in outcomes],
    )
    return 1 if any(outcome.code for outcome in outcomes) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="benchmarks to run (default: all)")
    wanted = parser.parse_args().names
    # Let SIGTERM interrupt the running benchmark, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if unknown := set(wanted) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    sys.exit(main(wanted))
