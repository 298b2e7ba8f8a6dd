"""Capacity model of a fleet, and the table of sizes in its page."""

import json
from pathlib import Path

import pytest

from project.repository import read
from tools.capacity.model import (
    CALLS_PER_STEP,
    DEFAULT_CPU_MS,
    SIZES,
    Costs,
    format_sizes,
    predict,
    read_costs,
    size_for_agents,
)

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
    assert (costs.server_ms, costs.database_ms) == DEFAULT_CPU_MS["alternating"]


def test_costs_are_read_from_the_results_of_the_benchmark(tmp_path: Path) -> None:
    results = tmp_path / "workers.json"
    rows = {"2 workers": {"python": 2.5, "postgres": 1.25}}
    results.write_text(json.dumps({"measured": "2026-11-17", "rows": rows}))
    costs = read_costs("sticky", results)
    assert (costs.server_ms, costs.database_ms) == (2.5, 1.25)


def test_page_has_the_table_of_sizes_from_the_documented_constants(tmp_path: Path) -> None:
    costs = read_costs("sticky", tmp_path / "none.json")
    assert format_sizes(SIZES, costs) in read("operate.md")
