"""Model check of the run rules: every state of a small stage, every call in every state.

`WAYBOOK_WALK=wide` gives every job all its tries, which takes some minutes more.
"""

import os

import pytest

from dag_builders import a_chain, a_plan_step
from decisions import decision
from run_paths import Bounds, walk
from run_worlds import MODELS, a_stage_of
from waybook.dag.model import JobStatus, Stage, Strategy
from waybook.run import failure, next_job

WIDE = os.environ.get("WAYBOOK_WALK") == "wide"
#: The expected errors of the walk. Any other exception ends it.
MET = {"INVALID_TRANSITION", "STALE_ATTEMPT"}


def one_behind_the_other() -> Stage:
    """Return two steps in sequence in which both models take part."""
    steps = [a_plan_step(key, Strategy.PER_MODEL) for key in ("a", "b")]
    return a_stage_of(*steps, edges=a_chain("a", "b"))


def two_into_one() -> Stage:
    """Return a step for both models and one for all, and one that depends on both."""
    steps = [a_plan_step("b", Strategy.PER_MODEL), a_plan_step("a"), a_plan_step("c")]
    return a_stage_of(*steps, edges=[("a", "c"), ("b", "c")])


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit jobs to two tries: they cover the same cases as four, with far fewer states."""
    if not WIDE:
        monkeypatch.setattr(failure, "MAX_ATTEMPTS", 2)
        monkeypatch.setattr(next_job, "MAX_ATTEMPTS", 2)


@decision("B1", "B5", "B6", "B17")
@pytest.mark.parametrize(
    ("stage", "bounds", "least"),
    [
        pytest.param(two_into_one(), Bounds(), 1_300, id="two into one"),
        pytest.param(one_behind_the_other(), Bounds(parts=2), 2_400, id="in parts"),
        pytest.param(one_behind_the_other(), Bounds(anew=1), 3_600, id="written anew"),
    ],
)
def test_run_reachable_states_keep_invariants_and_can_reach_end(
    stage: Stage, bounds: Bounds, least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = walk(stage, MODELS, bounds)
    with capsys.disabled():
        print(  # noqa: T201 - the size of the walk is part of its answer
            f"\n{bounds}: {len(paths.records)} states ({len(paths.ends())} of them ends), "
            f"{paths.edges} decisions, {paths.errors.total()} refusals, all as promised"
        )
    assert paths.dead_ends() == []
    assert set(paths.errors) == MET
    assert len(paths.records) > least
    met = {job.status for records in paths.records for job in records.jobs.values()}
    never = {JobStatus.WAITING, *(() if bounds.anew else (JobStatus.SUPERSEDED,))}
    assert met == set(JobStatus) - never
