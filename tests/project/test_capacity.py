"""Capacity model of a fleet, and the table of sizes in its page."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from project.repository import read
from tools.capacity.model import (
    CALLS_PER_STEP,
    DEFAULT_COSTS,
    SIZES,
    Costs,
    format_sizes,
    predict,
    read_costs,
    size_for_agents,
)
from tools.capacity.simulate import Measured, combine, fit

COSTS = Costs(server_ms=3.0, database_ms=1.5, source="test")


def test_predicted_load_is_the_rate_times_the_cost_of_a_step() -> None:
    size = predict(100.0, COSTS)
    assert (size.server_load, size.database_load) == pytest.approx((0.3, 0.15))
    assert size.calls_per_second == pytest.approx(100 * CALLS_PER_STEP)
    assert (size.workers, size.database_cores, size.connections) == (1, 1, 12)


def test_load_of_many_agents_needs_several_workers_with_connections() -> None:
    size = size_for_agents(12_000, 2.0, COSTS)
    assert size.steps_per_second == pytest.approx(400)
    assert (size.workers, size.database_cores, size.connections) == (2, 1, 23)


def test_costs_without_results_are_the_documented_constants(tmp_path: Path) -> None:
    costs = read_costs("alternating", tmp_path / "none.json")
    assert costs == DEFAULT_COSTS["alternating"]


def test_costs_are_read_from_the_results_of_the_simulator(tmp_path: Path) -> None:
    results = tmp_path / "capacity.json"
    results.write_text(json.dumps({"costs": {"sticky": asdict(COSTS)}}))
    assert read_costs("sticky", results) == COSTS
    assert read_costs("alternating", results) == DEFAULT_COSTS["alternating"]


def test_idle_servers_add_load() -> None:
    costs = replace(COSTS, idle_server=0.01, idle_database=0.02)
    size = predict(100.0, costs, servers=3)
    assert (size.server_load, size.database_load) == pytest.approx((0.33, 0.17))


def test_page_has_the_table_of_sizes_from_the_documented_constants(tmp_path: Path) -> None:
    costs = read_costs("sticky", tmp_path / "none.json")
    assert format_sizes(SIZES, costs) in read("operate.md")


def test_costs_of_two_calibrations_are_between_those_of_each() -> None:
    idle = (0.01, 0.02)
    quiet = Measured(calls=2_000, seconds=20.0, servers=4.0, database=3.0, bytes_per_call=1_000.0)
    busy = Measured(calls=1_000, seconds=20.0, servers=4.0, database=3.0, bytes_per_call=4_000.0)
    both = combine([quiet, busy])
    assert (both.calls, both.seconds, both.bytes_per_call) == (3_000, 40.0, 2_000.0)
    assert fit(idle, both, 2).server_ms == pytest.approx(
        (2 * fit(idle, quiet, 2).server_ms + fit(idle, busy, 2).server_ms) / 3
    )


def test_calibration_with_a_lost_call_is_lost() -> None:
    sound = Measured(calls=10, seconds=1.0, servers=0.1, database=0.1, bytes_per_call=1.0)
    assert combine([sound, sound._replace(is_lost=True)]).is_lost
    assert not combine([sound, sound]).is_lost
