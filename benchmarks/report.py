"""Time of a report on a large snapshot, compared with reading its rows and with a naive report.

The snapshot has 10,000 steps, 30,000 edges and 100,000 jobs. Reading its rows from JSON into Python
is what any report must do first. The naive report, written without regard to cost, scans all jobs
again for each step; it is run for a few steps and scaled up, since in full it takes minutes.

    python benchmarks/report.py [--steps 10000] [--rounds 5]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from waybook.dag.graph import Graph
from waybook.dag.model import ProgressStatus
from waybook.dag.progress.invariants import check
from waybook.dag.progress.overlay import evidence_of, overlay
from waybook.dag.snapshots.rows import assign_jobs, read_rows
from waybook.dag.snapshots.snapshot import read_snapshot, report_from_snapshot

#: Snapshot, or part of one: untyped JSON.
Body: TypeAlias = dict[str, Any]

#: Maximum ratio of times for twice the size.
LIMIT_GROWTH = 2.6
#: Minimum ratio of the naive report's time to ours.
LIMIT_NAIVE = 50
EDGES_PER_STEP, JOBS_PER_STEP, REACH = 3, 10, 200
SAMPLE = 40


def a_snapshot(steps: int) -> str:
    """Return a snapshot of a stage with `steps` steps, three edges and ten jobs each, as text."""
    chance = Random(steps)  # noqa: S311 - nothing secret about it
    keys = [f"step-{number}" for number in range(steps)]
    told = {"jobType": "EXECUTE", "granularityStrategy": "per_model"}
    recipe = {
        "steps": [{"stepKey": key, **told} for key in keys],
        "edges": [[keys[a], keys[b]] for a, b in some_edges(steps, chance)],
    }
    models = [f"model-{number}" for number in range(JOBS_PER_STEP)]
    jobs = [
        {
            "id": f"job-{number}",
            "stageSlug": "stage",
            # The last tenth of the steps has not been reached.
            "stepKey": keys[number % (steps * 9 // 10)],
            "jobType": "EXECUTE",
            "status": "completed" if chance.random() < 0.8 else "processing",
            "modelId": models[number % JOBS_PER_STEP],
            "parent": None,
            "continues": None,
            "documentKey": "text",
        }
        for number in range(steps * JOBS_PER_STEP)
    ]
    dag = {"slug": "large", "stages": [{"slug": "stage", "recipe": recipe}]}
    runs = [{"stageSlug": "stage", "models": models, "closed": keys[: steps // 2]}]
    return json.dumps({"dag": dag, "stageRuns": runs, "jobs": jobs, "resources": []})


def some_edges(steps: int, chance: Random) -> set[tuple[int, int]]:
    """Return random forward edges of limited length."""
    found: set[tuple[int, int]] = set()
    while len(found) < EDGES_PER_STEP * steps:
        source = chance.randrange(steps - 1)
        found.add((source, min(steps - 1, source + 1 + chance.randrange(REACH))))
    return found


# The naive report


def naive_standing(graph: Graph, jobs: list[Body], closed: list[str], key: str) -> str:
    """Return the status of a step by scanning all jobs for its own and for the steps reached."""
    own = [job["status"] for job in jobs if job["stepKey"] == key]
    if key in closed:
        return "completed"
    if "failed" in own:
        return "failed"
    if "processing" in own:
        return "in_progress"
    reached = {job["stepKey"] for job in jobs} & behind(graph, key)
    return "completed" if own or reached else "not_started"


def behind(graph: Graph, key: str) -> set[str]:
    """Return every step that depends on this one."""
    found: set[str] = set()
    asked = [key]
    while asked:
        new = [step for step in graph.successors[asked.pop()] if step not in found]
        found.update(new)
        asked += new
    return found


def naive_seconds(graph: Graph, snapshot: Body) -> float:
    """Estimate the time of the naive report from an evenly spaced sample of its steps."""
    jobs, closed = snapshot["jobs"], snapshot["stageRuns"][0]["closed"]
    sample = graph.order[:: len(graph.order) // SAMPLE]
    took = seconds(lambda: [naive_standing(graph, jobs, closed, key) for key in sample], 1)
    return took * len(graph.order) / len(sample)


# Comparison


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median CPU time of `rounds` tries."""
    found = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return statistics.median(found)


def standings(graph: Graph, snapshot: Body) -> dict[str, ProgressStatus]:
    """Return the status of each step, computed from the rows of the jobs."""
    placed, _ = assign_jobs(read_rows(snapshot["jobs"]), frozenset({"stage"}))
    evidence, _ = evidence_of(placed.work["stage"], snapshot["stageRuns"][0]["closed"])
    return overlay(graph, evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Times in seconds, and the growth compared with half the size."""

    reading: float
    whole: float
    placing: float
    naive: float
    growth: float


def measured(steps: int, rounds: int) -> Figures:
    """Measure one snapshot, and the growth compared with one of half the size."""
    half, text = json.loads(a_snapshot(steps // 2)), a_snapshot(steps)
    snapshot = json.loads(text)
    graph = read_snapshot(snapshot).structure.graphs["stage"]
    assert check(report_from_snapshot(snapshot)) == []
    # Alternating, so that a busy moment of the machine affects both.
    pairs = [
        (
            seconds(lambda: report_from_snapshot(snapshot), 1),
            seconds(lambda: report_from_snapshot(half), 1),
        )
        for _ in range(rounds)
    ]
    return Figures(
        reading=seconds(lambda: json.loads(text), rounds),
        whole=statistics.median(whole for whole, _ in pairs),
        placing=seconds(lambda: standings(graph, snapshot), rounds),
        naive=naive_seconds(graph, snapshot),
        growth=statistics.median(whole / part for whole, part in pairs),
    )


def main(steps: int, rounds: int) -> None:
    """Print the results, and fail beyond the limits."""
    told = measured(steps, rounds)
    faster = told.naive / told.placing
    edges, jobs = EDGES_PER_STEP * steps, JOBS_PER_STEP * steps
    print(f"{f'{steps:,} steps, {edges:,} edges, {jobs:,} jobs':46}{'CPU seconds':>12}")
    print(f"{'reading the rows from JSON':46}{told.reading:12.2f}")
    print(f"{'the report: definition checked, all told':46}{told.whole:12.2f}")
    print(f"{'of that, from the rows to where steps stand':46}{told.placing:12.2f}")
    print(f"{'the same, naively (by a sample)':46}{told.naive:12.1f}")
    print(f"{'twice the size takes, times':46}{told.growth:12.2f}   limit {LIMIT_GROWTH}")
    print(f"{'faster than naively, times':46}{faster:12.0f}   limit {LIMIT_NAIVE}")
    assert told.growth <= LIMIT_GROWTH, f"{told.growth:.2f} times as long is not linear"
    assert faster >= LIMIT_NAIVE, f"{faster:.0f} times, at least {LIMIT_NAIVE} is promised"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    main(arguments.steps, arguments.rounds)
