"""Model check of the run rules: every call is made in every state of a small stage.

To have fewer states, a job has two attempts instead of four. With `WAYBOOK_WALK=wide`, it has four,
and the check takes some minutes more.
"""

import os

import pytest

from dag_builders import make_chain, make_plan_step
from run_env import MODELS, make_stage_run
from run_state_space import Bounds, walk
from waybook.dag.model import JobStatus, Stage, Strategy
from waybook.run import failure, next_job

WIDE = os.environ.get("WAYBOOK_WALK") == "wide"
#: Error codes that occur during the model check. Any other exception ends the check.
MET = {"INVALID_TRANSITION", "STALE_ATTEMPT"}
CANCELED = {"RUN_CANCELED"}


def sequential_stages() -> Stage:
    """Return a stage with a step `a` and a step `b` after it, each with one job per model."""
    steps = [make_plan_step(key, Strategy.PER_MODEL) for key in ("a", "b")]
    return make_stage_run(*steps, edges=make_chain("a", "b"))


def joining_stages() -> Stage:
    """Return a stage with parallel steps `a` and `b`, and a step `c` that depends on both."""
    steps = [make_plan_step("b", Strategy.PER_MODEL), make_plan_step("a"), make_plan_step("c")]
    return make_stage_run(*steps, edges=[("a", "c"), ("b", "c")])


def item_stages() -> Stage:
    """Return a stage of three steps: make a list, work on each item, and use all the results."""
    steps = [
        make_plan_step("list"),
        make_plan_step("read", Strategy.PER_ITEM, inputs=["list"]),
        make_plan_step("sum"),
    ]
    return make_stage_run(*steps, edges=make_chain("list", "read", "sum"))


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit jobs to two attempts; this covers the same cases with fewer states."""
    if not WIDE:
        monkeypatch.setattr(failure, "MAX_ATTEMPTS", 2)
        monkeypatch.setattr(next_job, "MAX_ATTEMPTS", 2)


@pytest.mark.parametrize(
    ("stage", "bounds", "least"),
    [
        pytest.param(joining_stages(), Bounds(), 1_300, id="two into one"),
        pytest.param(joining_stages(), Bounds(cancellations=True), 2_600, id="canceled"),
        pytest.param(sequential_stages(), Bounds(parts=2), 2_400, id="in parts"),
        pytest.param(sequential_stages(), Bounds(regenerations=1), 3_600, id="written anew"),
        pytest.param(item_stages(), Bounds(cancellations=True), 250, id="items"),
        pytest.param(item_stages(), Bounds(regenerations=1), 2_000, id="items listed anew"),
    ],
)
def test_every_reachable_run_state_is_valid_and_can_end(
    stage: Stage, bounds: Bounds, least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = walk(stage, MODELS, bounds)
    with capsys.disabled():
        print(  # noqa: T201 - the size of the walk is part of its answer
            f"\n{bounds}: {len(paths.records)} states ({len(paths.ends())} of them ends), "
            f"{paths.edges} decisions, {paths.errors.total()} refusals, all as promised"
        )
    assert paths.dead_ends() == []
    assert set(paths.errors) == (MET | CANCELED if bounds.cancellations else MET)
    assert len(paths.records) > least
    met = {job.status for records in paths.records for job in records.jobs.values()}
    never = {JobStatus.WAITING, *(() if bounds.regenerations else (JobStatus.SUPERSEDED,))}
    assert met == set(JobStatus) - never
