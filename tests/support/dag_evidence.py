"""Snapshots of a run's progress, either with random content or from a simulated history."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from hypothesis import strategies as st

from waybook.dag.definitions.definition import graphs_of, write_definition
from waybook.dag.graph import Graph
from waybook.dag.model import Dag
from waybook.dag.progress.structure import Evidence

#: JSON of a snapshot or of a part of a snapshot; the type checker accepts any use of its values.
Body: TypeAlias = dict[str, Any]

COUNT = st.sampled_from([0, 0, 1, 2])
EVIDENCE = st.builds(Evidence, closed=st.booleans(), done=COUNT, active=COUNT, failed=COUNT)
#: Strategy for random number generators; Hypothesis prints the seed that repeats a failure.
CHANCE = st.integers(0, 2**32).map(Random)

UNFINISHED = ("pending", "processing", "retrying", "waiting", "held by somebody")
FAILED = ("failed", "retry_loop_failed")


def any_evidence(graph: Graph) -> st.SearchStrategy[Mapping[str, Evidence]]:
    return st.dictionaries(st.sampled_from(graph.order), EVIDENCE)


def make_job(stage: str, step: str | None, status: str, **more: object) -> Body:
    fields = {"id": f"{stage}/{step}/{status}", "jobType": "EXECUTE", "status": status}
    return {**fields, "stageSlug": stage, "stepKey": step, **more}


def make_snapshot(dag: Dag, *jobs: Body, runs: Mapping[str, list[str]] | None = None) -> Body:
    stage_runs = [{"stageSlug": slug, "models": models} for slug, models in (runs or {}).items()]
    return {
        "dag": write_definition(dag),
        "stageRuns": stage_runs,
        "jobs": list(jobs),
        "resources": [],
    }


def shuffled(snapshot: Body, chance: Random) -> Body:
    """Return the same snapshot with its rows in another order."""
    rows = {name: list(snapshot[name]) for name in ("stageRuns", "jobs", "resources")}
    for entries in rows.values():
        chance.shuffle(entries)
    return {**snapshot, **rows}


@dataclass
class History:
    """Simulated history of a run, with only valid status changes.

    When all predecessors of a step have ended, its jobs are created, all at the same time; some
    steps get no jobs. A job that continues another job is created when the other job ends. Failed
    jobs may be retried. If `closes` is true, the snapshots list the closed steps (those whose
    jobs are all done), and jobs of a closed step may be repeated.
    """

    dag: Dag
    chance: Random
    closes: bool
    snapshot: Body = field(init=False)
    over: dict[str, set[str]] = field(init=False)
    opened: dict[str, set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.graphs = graphs_of(self.dag)
        self.snapshot = make_snapshot(self.dag)
        self.over = {slug: set() for slug in self.graphs}
        self.opened = {slug: set() for slug in self.graphs}

    def moments(self, most: int) -> Iterator[Body]:
        """Yield the snapshot after each change; each change modifies the same object."""
        for _ in range(most):
            moves = [*self._on_the_map(), *self._on_jobs()]
            if not moves:
                break
            move, *about = self.chance.choice(moves)
            move(*about)
            yield self.snapshot

    def played(self, most: int) -> Body:
        """Return the snapshot after `most` changes, or fewer if no more changes are possible."""
        for _ in self.moments(most):
            pass
        return self.snapshot

    def _on_the_map(self) -> Iterator[tuple[Any, ...]]:
        begun = {run["stageSlug"] for run in self.snapshot["stageRuns"]}
        for slug, graph in self.graphs.items():
            if slug not in begun and all(map(self.is_complete, self.dag.before(slug))):
                yield self._begin, slug
            for key in graph.order if slug in begun else ():
                if key not in self.opened[slug] and self.over[slug] >= {*graph.predecessors[key]}:
                    yield self._open, slug, key

    def _on_jobs(self) -> Iterator[tuple[Any, ...]]:
        for job in self.snapshot["jobs"]:
            if job["status"] in UNFINISHED:
                yield self._work_on, job
            elif job["status"] in FAILED:
                yield self._retry, job
            elif job["status"] == "completed":
                yield from self._afterwards(job)

    def _afterwards(self, job: Body) -> Iterator[tuple[Any, ...]]:
        if job["jobType"] == "RENDER":
            yield self._keep, job
        elif self.chance.random() < 0.2:
            yield self._render, job
        elif self.closes and self._is_over(job) and self.chance.random() < 0.2:
            yield self._redo, job

    def is_complete(self, slug: str) -> bool:
        return self.over[slug] == set(self.graphs[slug].order)

    def _is_over(self, job: Body) -> bool:
        return job["stepKey"] in self.over.get(job["stageSlug"], ())

    def _begin(self, slug: str) -> None:
        models = self.chance.sample(["alpha", "beta", "gamma"], self.chance.randint(1, 3))
        self.snapshot["stageRuns"].append({"stageSlug": slug, "models": models, "closed": []})
        if self.chance.random() < 0.5:
            self._add(make_job(slug, None, "waiting", jobType="PLAN"))

    def _open(self, slug: str, key: str) -> None:
        self.opened[slug].add(key)
        skip = self.graphs[slug].steps[key].skip
        many = 0 if skip else self.chance.choice([0, 1, 1, 2, 3])
        for _ in range(many):
            self._add(make_job(slug, key, "pending"))
        self._close_if_done(slug, key)

    def _work_on(self, job: Body) -> None:
        job["status"] = self.chance.choice([*UNFINISHED, *["completed"] * 5, *FAILED])
        if job["status"] == "completed" and job["jobType"] != "RENDER":
            if self.chance.random() < 0.2:
                more = {"continues": job["id"]}
                self._add(make_job(job["stageSlug"], job["stepKey"], "pending", **more))
            if job["stepKey"] is not None:
                self._close_if_done(job["stageSlug"], job["stepKey"])

    def _retry(self, job: Body) -> None:
        job["status"] = "retrying"

    def _render(self, job: Body) -> None:
        more = {"jobType": "RENDER", "parent": job["id"], "documentKey": "text"}
        self._add(make_job(job["stageSlug"], job["stepKey"], "pending", **more))

    def _keep(self, job: Body) -> None:
        resource = {
            "id": f"r{len(self.snapshot['resources'])}",
            "resourceType": "rendered_document",
        }
        self.snapshot["resources"].append({**resource, "jobId": job["id"], "modelId": "alpha"})

    def _redo(self, job: Body) -> None:
        job["status"] = "superseded"
        self._add(make_job(job["stageSlug"], job["stepKey"], "pending"))

    def _add(self, job: Body) -> None:
        self.snapshot["jobs"].append({**job, "id": f"j{len(self.snapshot['jobs'])}"})

    def _close_if_done(self, slug: str, key: str) -> None:
        jobs = [
            job["status"]
            for job in self.snapshot["jobs"]
            if (job["stageSlug"], job["stepKey"]) == (slug, key) and job["jobType"] != "RENDER"
        ]
        if all(status in {"completed", "superseded"} for status in jobs):
            self.over[slug].add(key)
            if self.closes:
                run = next(r for r in self.snapshot["stageRuns"] if r["stageSlug"] == slug)
                run["closed"] = sorted({*run["closed"], key})
