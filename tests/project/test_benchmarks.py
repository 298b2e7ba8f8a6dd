"""Benchmarks: their limits, their drivers of other systems, and their page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from limits import Check, Direction, format_checks
from patience import PATIENCE_SECONDS
from project.repository import ROOT, read
from run_all import BENCHMARKS
from systems import SYSTEMS, System
from tools import performance


def test_benchmark_of_dashboard_pages_renders_every_page() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "pages.py"), "--rounds", "1"],
        env={"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'tests/support'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert run.returncode == 0, run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["the", "13", "500", "5,000"]


@pytest.mark.parametrize(
    ("rounds", "direction", "verdict"),
    [
        ([1.0, 1.1, 1.2], ">=", "goal reached"),
        ([0.8, 0.9, 0.9], ">=", "goal not reached"),
        ([0.6, 0.7, 0.9], ">=", "goal not reached"),
        ([0.6, 0.6, 0.7], ">=", "limit missed"),
        ([0.9, 0.9, 1.0], "<=", "limit missed"),
        ([0.7, 0.9, 1.1], "<=", "goal not reached"),
    ],
)
def test_benchmark_check_fails_only_for_changes_beyond_the_noise(
    rounds: list[float], direction: Direction, verdict: str
) -> None:
    goal = 1.0 if direction == ">=" else 0.5
    check = Check(name="ratio", rounds=rounds, direction=direction, limit=0.8, goal=goal)
    assert check.verdict() == verdict
    assert check.is_missed() == (verdict == "limit missed")
    assert format_checks([check]).splitlines()[1].endswith(verdict)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.key)
def test_system_in_the_comparison_has_a_driver_and_locked_version(system: System) -> None:
    assert system.script.exists()
    assert bool(system.version) == (system.package is not None)


def test_benchmark_drivers_of_other_systems_do_not_import_waybook() -> None:
    for system in SYSTEMS:
        if system.package is not None:
            assert not re.search(r"^(from|import) waybook", system.script.read_text(), re.MULTILINE)


def test_makefile_and_benchmarks_name_same_systems_for_the_comparison() -> None:
    (names,) = re.findall(r"^PEERS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(names.split()) == {system.driver for system in SYSTEMS if system.package}


def test_performance_page_lists_every_benchmark_of_make_bench() -> None:
    listed = read("evidence", "performance.md").split("| what it measures |")[1]
    assert re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE) == list(BENCHMARKS)
    assert all(Path(command[0]).exists() for command in BENCHMARKS.values())


def test_performance_page_has_every_generated_part() -> None:
    page = read("evidence", "performance.md")
    for name in (*performance.TABLES, "reads"):
        assert performance.replace_part(page, name, "new").count("\n\nnew\n\n") == 1
