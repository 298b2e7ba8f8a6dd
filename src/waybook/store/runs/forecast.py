"""Queries for the completed runs on which forecasts are based, and for recently used models."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Maximum number of completed runs, newest first, among which runs of the same workflow are
#: searched, and maximum number of runs of the workflow that are read.
MAX_NEWEST_RUNS = 2_000
MAX_FINISHED_RUNS = 20
MAX_RESULT_COSTS = 400
#: Maximum number of runs, newest first, from which model names are taken as suggestions, and
#: maximum number of suggested models.
MAX_RUNS_WITH_MODELS = 200
MAX_KNOWN_MODELS = 20


class FinishedRunRow(NamedTuple):
    """Completed run, with its duration, its cost and its number of jobs."""

    seconds: float
    #: Reported cost of the run in millionths of a dollar; None if no usage was reported.
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
    """Select the completed runs of a workflow, or of the workflow of a run."""
    return SQL["finished_runs"](
        slug=slug, run_id=run_id, newest=MAX_NEWEST_RUNS, most=MAX_FINISHED_RUNS
    )


def result_costs_statement(run_id: str) -> Statement:
    """Select the costs of the latest results of a run."""
    return SQL["result_costs"](run_id=run_id, most=MAX_RESULT_COSTS)


def known_models_statement() -> Statement:
    """Select the models that the org used last."""
    return SQL["known_models"](runs=MAX_RUNS_WITH_MODELS, most=MAX_KNOWN_MODELS)
