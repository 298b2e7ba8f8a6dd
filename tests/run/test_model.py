import json

from hypothesis import given

from dag_builders import dags, make_chain, make_dag, make_stage, make_step
from dag_runs import graphs_of
from run_env import make_compiled_dag, make_run
from waybook.dag.model import Dag
from waybook.run.model import CompiledDag


@given(dags())
def test_jobs_are_claimed_in_order_of_stages_and_steps(dag: Dag) -> None:
    compiled_dag = CompiledDag(dag, graphs_of(dag))
    in_turn = sorted(compiled_dag.dispatch_ranks, key=compiled_dag.dispatch_ranks.__getitem__)
    assert in_turn == [
        (slug, key) for slug in compiled_dag.order for key in compiled_dag.graphs[slug].order
    ]
    assert len({*compiled_dag.dispatch_ranks.values()}) == len(in_turn)


def test_documents_produced_by_a_workflow_exclude_external_inputs() -> None:
    compiled_dag = make_compiled_dag(make_dag(make_stage("one"), make_stage("two")))
    assert ("one", "one-work") in compiled_dag.produced_documents
    assert ("one", "brief") not in compiled_dag.produced_documents


def test_rows_of_a_run_are_valid_json() -> None:
    steps = [make_step(key) for key in ("a", "b")]
    world = make_run(make_stage("only", *steps, edges=make_chain("a", "b")))
    world.fail(world.claim(), retryable=False)
    world.retry("only")
    world.work()
    world.feedback("only")
    world.render()
    rows = world.records.rows()
    assert json.loads(json.dumps(rows)) == rows
    assert {*rows} == {"run", "stage_run", "stage_step", "job", "document", "rendered_document"}
