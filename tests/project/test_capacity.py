"""Capacity model of a fleet, and the table of sizes in its page."""

import json
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
from project.repository import read

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


def test_documented_step_costs_are_used_without_simulator_results(tmp_path: Path) -> None:
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


def test_measured_step_costs_predict_both_measured_rates() -> None:
    slow, fast = make_measured(500, 2.5, 1.5), make_measured(2_000, 6.25, 3.0)
    costs = fit(slow, fast, 2)
    for measured in (slow, fast):
        size = predict(measured.calls / 20 / CALLS_PER_STEP, costs, servers=2)
        assert 20 * size.server_load == pytest.approx(measured.servers)
        assert 20 * size.database_load == pytest.approx(measured.database)
