"""Benchmarks, the capacity model of a fleet, and the pages that show their results."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from capacity.model import (
    CALLS_PER_STEP,
    DEFAULT_COSTS,
    SIZES,
    Costs,
    format_sizes,
    predict,
    read_costs,
    size_for_agents,
)
from capacity.simulate import Measured, fit
from limits import Check, Direction, format_checks
from patience import PATIENCE_SECONDS
from project.repository import ROOT, read
from run_all import BENCHMARKS
from systems import SYSTEMS, System
from tools import performance


def test_benchmark_of_dashboard_pages_loads_every_page() -> None:
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
def test_benchmark_check_fails_only_if_every_round_misses_the_limit(
    rounds: list[float], direction: Direction, verdict: str
) -> None:
    goal = 1.0 if direction == ">=" else 0.5
    check = Check(name="ratio", rounds=rounds, direction=direction, limit=0.8, goal=goal)
    assert check.verdict() == verdict
    assert check.is_missed() == (verdict == "limit missed")
    assert format_checks([check]).splitlines()[1].endswith(verdict)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.key)
def test_every_compared_system_has_a_driver_and_a_locked_version(system: System) -> None:
    assert system.script.exists()
    assert bool(system.version) == (system.package is not None)


def test_benchmark_drivers_of_other_systems_do_not_import_waybook() -> None:
    for system in SYSTEMS:
        if system.package is not None:
            assert not re.search(r"^(from|import) waybook", system.script.read_text(), re.MULTILINE)


def test_makefile_and_benchmarks_compare_the_same_systems() -> None:
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


# Tests of the capacity model of a fleet.


COSTS = Costs(server_ms=3.0, database_ms=1.5, source="test")


def test_predicted_load_is_step_rate_times_cost_per_step() -> None:
    size = predict(100.0, COSTS)
    assert (size.server_load, size.database_load) == pytest.approx((0.3, 0.15))
    assert size.calls_per_second == pytest.approx(100 * CALLS_PER_STEP)
    assert (size.workers, size.database_cores, size.connections) == (1, 1, 12)


def test_recommended_size_for_12000_agents_has_workers_and_connections() -> None:
    size = size_for_agents(12_000, 2.0, COSTS)
    assert size.steps_per_second == pytest.approx(400)
    assert (size.workers, size.database_cores, size.connections) == (2, 1, 23)


def test_documented_step_costs_are_used_if_simulator_results_are_missing(tmp_path: Path) -> None:
    costs = read_costs("alternating", tmp_path / "none.json")
    assert costs == DEFAULT_COSTS["alternating"]


def test_step_costs_are_read_from_the_results_of_the_simulator(tmp_path: Path) -> None:
    results = tmp_path / "capacity.json"
    results.write_text(json.dumps({"costs": {"sticky": asdict(COSTS)}}))
    assert read_costs("sticky", results) == COSTS
    assert read_costs("alternating", results) == DEFAULT_COSTS["alternating"]


def test_capacity_page_shows_sizes_for_the_documented_step_costs(tmp_path: Path) -> None:
    costs = read_costs("sticky", tmp_path / "none.json")
    assert format_sizes(SIZES, costs) in read("operate.md")


def make_measured(calls: int, servers: float, database: float) -> Measured:
    return Measured(
        calls=calls, seconds=20.0, servers=servers, database=database, bytes_per_call=1_000.0
    )


def test_step_costs_fitted_to_two_measurements_predict_both_loads() -> None:
    slow, fast = make_measured(500, 2.5, 1.5), make_measured(2_000, 6.25, 3.0)
    costs = fit(slow, fast, 2)
    for measured in (slow, fast):
        size = predict(measured.calls / 20 / CALLS_PER_STEP, costs, servers=2)
        assert 20 * size.server_load == pytest.approx(measured.servers)
        assert 20 * size.database_load == pytest.approx(measured.database)
