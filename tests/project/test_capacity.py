"""Capacity model of a fleet, and the table of sizes in its page."""

import json
from dataclasses import asdict, replace
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
from capacity.simulate import Measured, combine, fit
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


def test_each_server_adds_a_fixed_load_to_the_prediction() -> None:
    costs = replace(COSTS, fixed_server=0.01, fixed_database=0.02)
    size = predict(100.0, costs, servers=3)
    assert (size.server_load, size.database_load) == pytest.approx((0.33, 0.17))


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


def test_fixed_part_of_step_costs_is_never_negative() -> None:
    costs = fit(make_measured(500, 1.0, 1.0), make_measured(1_000, 3.0, 3.0), 2)
    assert (costs.fixed_server, costs.fixed_database) == (0.0, 0.0)


def test_capacity_measurements_of_several_servers_are_added_up() -> None:
    first = make_measured(2_000, 4.0, 3.0)
    second = first._replace(calls=1_000, bytes_per_call=4_000.0)
    both = combine([first, second])
    assert (both.calls, both.seconds, both.servers) == (3_000, 40.0, 8.0)
    assert both.bytes_per_call == pytest.approx(2_000.0)


def test_capacity_measurement_with_a_lost_call_is_marked() -> None:
    sound = Measured(calls=10, seconds=1.0, servers=0.1, database=0.1, bytes_per_call=1.0)
    assert combine([sound, sound._replace(is_lost=True)]).is_lost
    assert not combine([sound, sound]).is_lost
