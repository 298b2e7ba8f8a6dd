"""Random runs, which stay valid and can be completed after any events.

The invariants in `run_invariants` are checked after every decision. With `WAYBOOK_WALK=wide`, many
more runs are tried.
"""

import os
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from dag_builders import dags, make_dag, recipes
from dag_evidence import CHANCE
from dag_runs import dag_counts, graphs_of
from run_env import make_run
from run_invariants import check_end
from waybook.dag.model import Dag, Stage
from worker_simulation import WorkerSimulation

WIDE = os.environ.get("WAYBOOK_WALK") == "wide"
NAMES = ("alpha", "beta", "gamma")
#: Maximum number of jobs in one run.
MAX_JOBS = 120
#: Maximum number of random events per run.
RIOT = 250


def affordable(dag: Dag) -> tuple[str, ...]:
    """Return as many models as the stages of this DAG can have with at most `MAX_JOBS` jobs."""
    for many in (3, 2):
        models = NAMES[:many]
        counts = dag_counts(
            dag, graphs_of(dag), dict.fromkeys((s.slug for s in dag.stages), models)
        )
        if sum(stage.total for stage in counts.values()) <= MAX_JOBS:
            return models
    return NAMES[:1]


@st.composite
def diamonds(draw: st.DrawFn) -> Dag:
    """Generate a workflow of four stages, in which the second and third are parallel."""
    first, left, right, last = (
        Stage(slug, slug, draw(recipes(3, stage=slug)))
        for slug in ("first", "left", "right", "last")
    )
    ways = [("first", "left"), ("first", "right"), ("left", "last"), ("right", "last")]
    return make_dag(first, left, right, last, transitions=ways)


@settings(max_examples=3000 if WIDE else 60)
@given(st.one_of(dags(max_steps=5), diamonds()), CHANCE)
def test_run_after_random_events_can_always_be_completed(dag: Dag, chance: Random) -> None:
    models = affordable(dag)
    world = make_run(dag, chance.sample(models, chance.randint(1, len(models))))
    crowd = WorkerSimulation(world, chance, models)
    crowd.act_at_random(chance.randint(0, RIOT))
    crowd.complete_run()
    crowd.act_at_random(20)
    crowd.complete_run()
    while world.render():
        pass
    check_end(world.records, world.changes)
