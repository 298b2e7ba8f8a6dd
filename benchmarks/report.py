"""Time of a report on a large snapshot, compared with reading its rows and with a naive report.

The snapshot has 10,000 steps, 30,000 edges and 100,000 jobs. Every report must first read these
rows from JSON into Python. The first comparison is therefore with a program that only reads them,
with the parser that Waybook uses, into one tuple per row. The naive report scans all jobs again for
each step. It would take minutes, so it is run for a sample of the steps and extrapolated.

    PYTHONPATH=tests/support python benchmarks/report.py [--steps 10000] [--rounds 5]
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import orjson

from report_invariants import check
from waybook.dag.graph import Graph
from waybook.dag.model import ProgressStatus
from waybook.dag.progress.structure import evidence_of, overlay
from waybook.dag.snapshots.rows import assign_jobs
from waybook.dag.snapshots.snapshot import read_snapshot, report_from_snapshot

#: JSON of a snapshot or of a part of it; the type checker does not check accesses to it.
Body: TypeAlias = dict[str, Any]

#: Maximum factor by which a report takes longer if the snapshot is twice as large.
MAX_GROWTH = 2.5
#: Maximum time of a report, as a multiple of the time to read the rows into tuples.
MAX_READINGS = 1.8
#: Minimum time of the naive report, as a multiple of the time of Waybook's report.
MIN_SPEEDUP = 600
#: Number of edges and of jobs per step, and maximum number of steps from the start of an edge to
#: its end.
EDGES_PER_STEP, JOBS_PER_STEP, REACH = 3, 10, 200
SAMPLED_STEPS = 40


def make_snapshot(steps: int) -> str:
    """Return the text of a snapshot of one stage; each step has three edges and ten jobs."""
    generator = Random(steps)  # noqa: S311 - not for secrets
    keys = [f"step-{number}" for number in range(steps)]
    kind = {"jobType": "EXECUTE", "granularityStrategy": "per_model"}
    recipe = {
        "steps": [{"stepKey": key, **kind} for key in keys],
        "edges": [[keys[a], keys[b]] for a, b in random_edges(steps, generator)],
    }
    models = [f"model-{number}" for number in range(JOBS_PER_STEP)]
    jobs = [
        {
            "id": f"job-{number}",
            "stageSlug": "stage",
            # The last tenth of the steps has no jobs.
            "stepKey": keys[number % (steps * 9 // 10)],
            "jobType": "EXECUTE",
            "status": "completed" if generator.random() < 0.8 else "processing",
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


def random_edges(steps: int, generator: Random) -> set[tuple[int, int]]:
    """Return random edges, each from a step to one of the next `REACH` steps."""
    edges: set[tuple[int, int]] = set()
    while len(edges) < EDGES_PER_STEP * steps:
        source = generator.randrange(steps - 1)
        edges.add((source, min(steps - 1, source + 1 + generator.randrange(REACH))))
    return edges


# Functions of the naive report


def naive_status(graph: Graph, jobs: list[Body], closed: list[str], key: str) -> str:
    """Return a step's status; search all jobs for those of the step and of its successors."""
    own = [job["status"] for job in jobs if job["stepKey"] == key]
    if key in closed:
        return "completed"
    if "failed" in own:
        return "failed"
    if "processing" in own:
        return "in_progress"
    reached = {job["stepKey"] for job in jobs} & descendants(graph, key)
    return "completed" if own or reached else "not_started"


def descendants(graph: Graph, key: str) -> set[str]:
    """Return every step that depends on this step, directly or through other steps."""
    visited: set[str] = set()
    open_keys = [key]
    while open_keys:
        new = [step for step in graph.successors[open_keys.pop()] if step not in visited]
        visited.update(new)
        open_keys += new
    return visited


def naive_seconds(graph: Graph, snapshot: Body) -> float:
    """Estimate the time of the naive report for all steps from an even sample of the steps."""
    jobs, closed = snapshot["jobs"], snapshot["stageRuns"][0]["closed"]
    sample = graph.order[:: len(graph.order) // SAMPLED_STEPS]
    took = cpu_seconds(lambda: [naive_status(graph, jobs, closed, key) for key in sample], 1)
    return took * len(graph.order) / len(sample)


# Functions that measure and compare


def cpu_seconds(work: Callable[[], object], rounds: int) -> float:
    """Call `work` several times; return the median CPU time of a call."""
    times = []
    for _ in range(rounds):
        # Garbage of earlier calls would make collections during this call slower.
        gc.collect()
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def step_statuses(graph: Graph, snapshot: Body) -> dict[str, ProgressStatus]:
    """Return the status of each step, as Waybook's report computes it."""
    work, *_ = assign_jobs(snapshot["jobs"], frozenset({"stage"}))
    evidence, _ = evidence_of(work["stage"], snapshot["stageRuns"][0]["closed"])
    return overlay(graph, evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """CPU seconds, and the report's time divided by other times of the same round."""

    reading: float
    report: float
    statuses: float
    naive: float
    growth: float
    readings: float
    #: Interquartile range of the ratio of the report's time to the reading time.
    spread: float


def measure(steps: int, rounds: int) -> Measurement:
    """Measure the report on a snapshot, also as a multiple of the time for half the steps."""
    half, text = orjson.loads(make_snapshot(steps // 2)), make_snapshot(steps).encode()
    snapshot = orjson.loads(text)
    graph = read_snapshot(snapshot).structure.graphs["stage"]
    assert check(report_from_snapshot(snapshot)) == []
    # Measure the times of a round one after the other, so that other programs on the machine affect
    # all of them.
    times = [
        (
            cpu_seconds(lambda: report_from_snapshot(snapshot), 1),
            cpu_seconds(lambda: report_from_snapshot(half), 1),
            cpu_seconds(lambda: read_tuples(text), 1),
        )
        for _ in range(rounds)
    ]
    readings = [full / reading for full, _, reading in times]
    first, _, third = statistics.quantiles(readings, n=4)
    return Measurement(
        reading=statistics.median(reading for _, _, reading in times),
        report=statistics.median(full for full, _, _ in times),
        statuses=cpu_seconds(lambda: step_statuses(graph, snapshot), rounds),
        naive=naive_seconds(graph, snapshot),
        growth=statistics.median(full / part for full, part, _ in times),
        readings=statistics.median(readings),
        spread=third - first,
    )


def read_tuples(text: bytes) -> list[tuple[object, ...]]:
    """Read a snapshot; return a tuple for each of its steps, edges and jobs."""
    snapshot = orjson.loads(text)
    recipe = snapshot["dag"]["stages"][0]["recipe"]
    return [
        *(tuple(step.values()) for step in recipe["steps"]),
        *map(tuple, recipe["edges"]),
        *(tuple(job.values()) for job in snapshot["jobs"]),
    ]


def main(steps: int, rounds: int) -> None:
    """Print the results; raise AssertionError if a limit is exceeded."""
    result = measure(steps, rounds)
    speedup = result.naive / result.statuses
    edges, jobs = EDGES_PER_STEP * steps, JOBS_PER_STEP * steps
    print(f"{f'{steps:,} steps, {edges:,} edges, {jobs:,} jobs':46}{'CPU seconds':>12}")
    print(f"{'reading the rows from JSON into tuples':46}{result.reading:12.2f}")
    print(f"{'report, including the check of the definition':46}{result.report:12.2f}")
    print(f"{'of that, from the rows to the step statuses':46}{result.statuses:12.2f}")
    print(f"{'the same by the naive report, extrapolated':46}{result.naive:12.1f}")
    print(
        f"{'ratio of the report to the reading':46}{result.readings:12.2f}   limit {MAX_READINGS}"
        f", spread {result.spread:.2f}"
    )
    print(f"{'ratio of times for twice the size':46}{result.growth:12.2f}   limit {MAX_GROWTH}")
    print(f"{'ratio of the naive time':46}{speedup:12.0f}   limit {MIN_SPEEDUP}")
    assert result.readings <= MAX_READINGS + result.spread, (
        f"{result.readings:.2f} times the reading time; the limit is {MAX_READINGS}"
    )
    assert result.growth <= MAX_GROWTH, (
        f"twice the steps take {result.growth:.2f} times as long; the limit is {MAX_GROWTH}"
    )
    assert speedup >= MIN_SPEEDUP, (
        f"{speedup:.0f} times as fast as the naive report; the limit is {MIN_SPEEDUP}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    main(arguments.steps, arguments.rounds)
