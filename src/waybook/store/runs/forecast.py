"""Selects the completed runs on which forecasts are based, and recently used models."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Number of completed runs, newest first, that are searched for runs of the same workflow.
MAX_NEWEST_RUNS = 2_000
MAX_FINISHED_RUNS = 20
MAX_RESULT_COSTS = 400
MAX_RUNS_WITH_MODELS = 200
MAX_KNOWN_MODELS = 20


class FinishedRunRow(NamedTuple):
    seconds: float
    #: Reported cost in millionths of a dollar. None if no usage was reported.
    cost_micros: int | None
    jobs: int


class ResultCostRow(NamedTuple):
    cost_micros: int


class KnownModelRow(NamedTuple):
    model: str


SQL = load(
    "runs/forecast",
    finished_runs=FinishedRunRow,
    result_costs=ResultCostRow,
    known_models=KnownModelRow,
)


def finished_runs_statement(*, slug: str | None = None, run_id: str | None = None) -> Statement:
    return SQL["finished_runs"](
        slug=slug, run_id=run_id, newest=MAX_NEWEST_RUNS, most=MAX_FINISHED_RUNS
    )


def result_costs_statement(run_id: str) -> Statement:
    return SQL["result_costs"](run_id=run_id, most=MAX_RESULT_COSTS)


def known_models_statement() -> Statement:
    return SQL["known_models"](runs=MAX_RUNS_WITH_MODELS, most=MAX_KNOWN_MODELS)
