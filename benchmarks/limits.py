"""Limits and goals of benchmarks: median and noise of rounds, verdicts, tables and result files.

A limit is a value that must not get worse; missing it fails the benchmark. A goal is a value to be
reached. A limit is missed only if the median of the rounds misses it by more than their noise,
which is half of the range of the rounds. Results are stored in `build/bench/NAME.json`, from which
`python -m tools.performance` writes the tables of docs/evidence/performance.md.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "build" / "bench"

#: Load average before the benchmark, which shows whether other programs were running.
LOAD_BEFORE: Final = round(os.getloadavg()[0], 1)

#: Direction of a comparison: `>=` if larger values are better, `<=` if smaller ones are.
Direction = Literal[">=", "<="]


def noise(values: Sequence[float]) -> float:
    """Return half of the range of these values."""
    return (max(values) - min(values)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Values of a figure in all rounds, with a limit and a goal for their median."""

    name: str
    rounds: Sequence[float]
    direction: Direction = ">="
    limit: float | None = None
    goal: float | None = None

    @property
    def value(self) -> float:
        """Return the median of the rounds."""
        return median(self.rounds)

    @property
    def noise(self) -> float:
        """Return half of the range of the rounds."""
        return noise(self.rounds)

    def is_missed(self) -> bool:
        """Return whether the limit is missed by more than the noise."""
        return self.limit is not None and self._distance(self.limit) < -self.noise

    def is_reached(self) -> bool:
        """Return whether the median reaches the goal, or the limit if no goal is set."""
        wanted = self.limit if self.goal is None else self.goal
        return wanted is None or self._distance(wanted) >= 0

    def verdict(self) -> str:
        if self.is_missed():
            return "limit missed"
        if self.goal is not None:
            return "goal reached" if self.is_reached() else "goal not reached"
        return "" if self.limit is None else "limit kept"

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "value": self.value,
            "noise": self.noise,
            "direction": self.direction,
            "limit": self.limit,
            "goal": self.goal,
            "missed": self.is_missed(),
            "verdict": self.verdict(),
        }

    def _distance(self, wanted: float) -> float:
        """Return by how much the median is better than a value; negative if it is worse."""
        return self.value - wanted if self.direction == ">=" else wanted - self.value


def format_checks(checks: Sequence[Check]) -> str:
    """Return a table of the checks as text."""
    width = max(34, *(len(check.name) + 2 for check in checks))
    lines = [f"{'':{width}}{'value':>8}{'noise':>9}{'limit':>9}{'goal':>9}"]
    for check in checks:
        bounds = "".join(
            f"{'' if bound is None else f'{check.direction} {bound:g}':>9}"
            for bound in (check.limit, check.goal)
        )
        figures = f"{check.value:8.2f}{f'± {check.noise:.2f}':>9}{bounds}"
        lines.append(f"{check.name:{width}}{figures}   {check.verdict()}".rstrip())
    return "\n".join(lines)


def finish(name: str, checks: Sequence[Check], **figures: object) -> None:
    """Print the checks and write the result file; exit with code 1 if a limit is missed."""
    print(format_checks(checks))
    save(name, checks, **figures)
    if missed := [check.name for check in checks if check.is_missed()]:
        sys.exit(f"{name}: limit missed by more than the noise: {', '.join(missed)}")


def save(name: str, checks: Sequence[Check] = (), **figures: object) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    body = {
        "benchmark": name,
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": commit(),
        "machine": machine(),
        "checks": [check.to_json() for check in checks],
        **figures,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def machine() -> Mapping[str, object]:
    """Return facts about this machine: processor, cores, versions, and load."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "loadBefore": LOAD_BEFORE,
    }


def commit() -> str:
    """Return the short id of the commit, with a plus sign if there are uncommitted changes."""
    tracked = ["git", "status", "--porcelain", "--untracked-files=no"]
    return _output("git", "rev-parse", "--short=8", "HEAD") + ("+" if _output(*tracked) else "")


def _processor() -> str:
    for line in _output("lscpu").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Model name":
            return value.strip()
    return platform.processor() or "unknown"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
