"""Reports and maps from snapshots of other systems, and errors for invalid snapshots."""

import json
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given

from any_json import any_json
from dag_builders import dags, make_chain, make_dag, make_stage, make_step
from dag_evidence import CHANCE, Body, History, make_job, make_snapshot
from report_invariants import check
from waybook.dag.definitions.definition import write_definition
from waybook.dag.model import Dag, Strategy
from waybook.dag.progress.report import Report, StageReport
from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import BadRecipe, InvalidInput, WaybookError

MODELS = ["alpha", "beta"]
DAG = make_dag(
    make_stage("thesis", make_step("plan"), make_step("write"), edges=make_chain("plan", "write")),
    make_stage("antithesis"),
)
RUNS = {"thesis": MODELS}


def checked_report(snapshot: Body) -> Report:
    """Return the report of a snapshot, after checking the report's invariants."""
    report = report_from_snapshot(snapshot)
    assert check(report) == []
    return report


def thesis(*jobs: Body, **more: object) -> StageReport:
    """Return the report of the first stage, for a snapshot with these jobs."""
    return checked_report({**make_snapshot(DAG, *jobs, runs=RUNS), **more})["stages"][0]


def statuses(stage: StageReport) -> list[str]:
    return [str(step["status"]) for step in stage["steps"] or ()]


def test_report_from_a_valid_snapshot_has_no_warnings() -> None:
    report = checked_report(make_snapshot(DAG, make_job("thesis", "plan", "completed"), runs=RUNS))
    assert report["warnings"] == []
    assert [stage["warnings"] for stage in report["stages"]] == [[], []]
    assert statuses(report["stages"][0]) == ["completed", "not_started"]


def test_stage_without_jobs_is_completed_if_all_steps_are_closed() -> None:
    runs = [{"stageSlug": "thesis", "models": MODELS, "closed": ["plan", "write"]}]
    assert thesis(stageRuns=runs)["status"] == "completed"


def test_stage_without_stage_run_or_job_lists_no_steps() -> None:
    nothing = checked_report(make_snapshot(DAG))
    assert [stage["steps"] for stage in nothing["stages"]] == [[], []]
    assert statuses(thesis()) == ["not_started", "not_started"]
    for job in (
        make_job("antithesis", None, "waiting"),
        make_job("antithesis", "antithesis-work", "superseded"),
        make_job("antithesis", "antithesis-work", "pending", jobType="RENDER"),
    ):
        stage = checked_report(make_snapshot(DAG, job))["stages"][1]
        assert (stage["status"], statuses(stage)) == ("not_started", ["not_started"])


def test_report_from_snapshot_counts_duplicate_models_once() -> None:
    stage = thesis(stageRuns=[{"stageSlug": "thesis", "models": ["a", "b", "a"]}])
    assert (stage["modelCount"], stage["documentsExpected"]) == (2, 4)


def test_continuation_job_without_step_belongs_to_the_continued_step() -> None:
    first = make_job("thesis", "plan", "completed", id="j1")
    second = {"id": "j2", "jobType": "EXECUTE", "status": "completed", "continues": "j1"}
    third = {"id": "j3", "jobType": "EXECUTE", "status": "processing", "continues": "j2"}
    stage = thesis(first, second, third)
    assert statuses(stage) == ["in_progress", "not_started"]
    assert stage["warnings"] == []


def test_cyclic_continuation_jobs_in_a_snapshot_cause_a_warning() -> None:
    rounds = [
        {"id": "j1", "jobType": "PLAN", "status": "completed", "continues": "j2"},
        {"id": "j2", "jobType": "PLAN", "status": "completed", "continues": "j1"},
    ]
    assert checked_report(make_snapshot(DAG, *rounds, runs=RUNS))["warnings"] == [
        "2 jobs without a stage"
    ]


def test_report_from_snapshot_accepts_numeric_ids() -> None:
    render = make_job("thesis", None, "completed", id=17, jobType="RENDER", documentKey="text")
    resource = {"id": 3, "resourceType": "rendered_document", "jobId": 17, "modelId": "alpha"}
    assert thesis(render, resources=[resource])["documents"] == [
        {"documentKey": "text", "modelId": "alpha", "resourceId": "3", "status": "available"}
    ]


def test_render_job_takes_missing_fields_from_the_parent_job() -> None:
    write = make_job("thesis", "write", "completed", id="j1", modelId="beta", documentKey="text")
    render = {"id": "j2", "jobType": "RENDER", "status": "completed", "parent": "j1"}
    resource = {"id": "r1", "resourceType": "rendered_document", "jobId": "j2"}
    stage = thesis(write, render, resources=[resource])
    assert stage["documents"] == [
        {"documentKey": "text", "modelId": "beta", "resourceId": "r1", "status": "available"}
    ]
    assert stage["documentsAvailable"] == 1


def test_report_from_snapshot_lists_only_rendered_documents() -> None:
    assert thesis(resources=[{"id": "r1", "resourceType": "seed_prompt"}])["documents"] == []


RENDER = make_job("thesis", None, "completed", id="j1", jobType="RENDER")


@pytest.mark.parametrize(
    ("job", "warning"),
    [
        (
            make_job("thesis", "plan", "paused"),
            "step 'plan': 1 job in the unknown status 'paused', counted as unfinished",
        ),
        (
            {"id": "j1", "stageSlug": "thesis", "stepKey": "plan", "jobType": "PLAN"},
            "step 'plan': 1 job without a status, counted as unfinished",
        ),
        (make_job("thesis", "sing", "pending"), "1 job of an unknown step: 'sing'"),
        (make_job("thesis", "plan", "pending", id=None), "1 job without an id"),
        (make_job("thesis", "plan", "pending", jobType=None), "1 job without a type"),
        (make_job("thesis", "plan", "pending", jobType="SING"), "1 job of the unknown type 'SING'"),
        (RENDER, "the RENDER job 'j1' is completed, but there is no document of it"),
    ],
    ids=["status", "no status", "step", "id", "no type", "type", "RENDER without its document"],
)
def test_invalid_job_in_a_snapshot_causes_a_stage_warning(job: Body, warning: str) -> None:
    report = checked_report(make_snapshot(DAG, job, runs=RUNS))
    assert report["stages"][0]["warnings"] == [warning]
    assert report["warnings"] == report["stages"][1]["warnings"] == []


@pytest.mark.parametrize(
    ("more", "warning"),
    [
        ({"jobs": [make_job("sonata", "x", "pending")]}, "1 job of an unknown stage: 'sonata'"),
        ({"jobs": [{"id": "j", "jobType": "PLAN", "status": "pending"}]}, "1 job without a stage"),
        ({"jobs": [make_job("thesis", None, "pending")] * 3}, "2 jobs with the id of another job"),
        ({"jobs": None}, "the snapshot has no jobs"),
        ({"resources": {}}, "resources of the snapshot is not a list"),
        ({"stageRuns": [{"stageSlug": "x"}]}, "a stage run of an unknown stage: 'x'"),
        ({"stageRuns": [{}, 7]}, "2 stage runs without a stage"),
        (
            {"resources": [{"id": "r1", "resourceType": "rendered_document", "jobId": "j9"}]},
            "the rendered document 'r1' belongs to no known RENDER job ('j9')",
        ),
        (
            {"resources": [{"resourceType": "rendered_document"}]},
            "1 rendered document without an id",
        ),
    ],
    ids=str,
)
def test_snapshot_error_outside_any_stage_causes_general_warning(more: Body, warning: str) -> None:
    report = checked_report({**make_snapshot(DAG, runs=RUNS), **more})
    assert report["warnings"] == [warning]
    assert [stage["warnings"] for stage in report["stages"]] == [[], []]


@pytest.mark.parametrize(
    ("runs", "warning"),
    [
        (
            [{"stageSlug": "thesis", "models": MODELS, "closed": ["sing"]}],
            "there is no step 'sing', which is listed as closed",
        ),
        ([{"stageSlug": "thesis", "models": MODELS, "closed": 3}], "its closed are not a list"),
        (
            [{"stageSlug": "thesis", "models": [*MODELS, {}]}],
            "some of its models are not names, and are left out",
        ),
        ([{"stageSlug": "thesis", "models": MODELS}] * 2, "2 stage runs of this stage, merged"),
        ([{"stageSlug": "thesis"}], "expected documents unknown: models are not set"),
    ],
)
def test_invalid_stage_run_in_a_snapshot_causes_a_warning(runs: list[Body], warning: str) -> None:
    stage = thesis(stageRuns=runs)
    assert stage["warnings"] == [warning]
    assert statuses(stage) == ["not_started", "not_started"]


def test_snapshot_warnings_are_limited_and_the_rest_is_counted() -> None:
    jobs = [make_job("thesis", f"s{n}", "pending") for n in range(1000)]
    warnings = thesis(*jobs)["warnings"]
    assert (len(warnings), warnings[-1]) == (21, "and 980 more warnings")


def test_warning_about_a_snapshot_shortens_a_long_name() -> None:
    (warning,) = thesis(make_job("thesis", "x" * 100_000, "pending"))["warnings"]
    assert len(warning) < 200


@pytest.mark.parametrize("data", [None, 3, "dag", [], [{"dag": {}}], {}, {"dag": None}, {"dag": 1}])
def test_snapshot_without_dag_raises_invalid_input(data: object) -> None:
    for door in (report_from_snapshot, map_from_snapshot):
        with pytest.raises(InvalidInput):
            door(data)


@pytest.mark.parametrize("dag", [{}, {"slug": "x"}, {"stages": []}, {"slug": "x", "stages": {}}])
def test_snapshot_of_a_dag_without_stages_raises_bad_recipe(dag: Body) -> None:
    for door in (report_from_snapshot, map_from_snapshot):
        with pytest.raises(BadRecipe):
            door({"dag": dag})


JUNK: list[object] = [
    *(None, 0, -1, 1.5, True, "", "thesis", "x" * 300, [], {}, [[]], [None], {"id": "j"}, 10**30)
]


def spoiled(value: Any, chance: Random, most: int) -> Any:  # noqa: ANN401 - JSON
    """Return a copy of JSON data with up to `most` values removed or replaced by others."""
    copy = json.loads(json.dumps(value))
    for _ in range(chance.randint(1, most)):
        inner, last = copy, None
        while isinstance(inner, dict | list) and inner and (last is None or chance.random() < 0.8):
            place = chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            last, inner = (inner, place), inner[place]
        if last is not None:
            last[0][last[1]] = chance.choice(JUNK)
    return copy


@given(dags(max_stages=3, max_steps=4), CHANCE)
def test_damaged_snapshot_returns_a_valid_report_or_an_error(dag: Dag, chance: Random) -> None:
    snapshot = spoiled(History(dag, chance, closes=True).played(25), chance, most=6)
    for door in (report_from_snapshot, map_from_snapshot):
        try:
            result = door(snapshot)
        except WaybookError as refusal:
            result = refusal.as_json()  # type: ignore[assignment]  # any JSON will do
        json.dumps(result, allow_nan=False)
        if door is report_from_snapshot and "stages" in result:
            assert check(result) == []  # type: ignore[arg-type]  # it has stages


JSON = any_json("dag", "stages", "slug", "recipe", "steps", "edges", "jobs", "stepKey")


@given(JSON)
def test_any_json_as_snapshot_raises_only_waybook_errors(data: object) -> None:
    for door in (report_from_snapshot, map_from_snapshot):
        with suppress(WaybookError):
            door(data if isinstance(data, dict) else {"dag": data})


def test_map_of_unstarted_stage_uses_models_of_earlier_stage() -> None:
    pairs = make_stage("synthesis", make_step("pairs", Strategy.PAIRWISE_BY_ORIGIN))
    snapshot = make_snapshot(
        make_dag(*DAG.stages, pairs), runs={"thesis": MODELS, "synthesis": ["a"]}
    )
    dag_map = map_from_snapshot(snapshot)
    assert [stage["expected"]["total"] for stage in dag_map["stages"]] == [4, 2, 4]
    assert "warnings" not in dag_map


def test_map_can_be_made_from_a_definition_without_a_snapshot() -> None:
    dag_map = map_from_snapshot(write_definition(DAG), ["alpha"])
    assert [stage["expected"] for stage in dag_map["stages"]] == [
        {"total": 2, "steps": {"plan": 1, "write": 1}},
        {"total": 1, "steps": {"antithesis-work": 1}},
    ]


def test_map_from_snapshot_without_models_has_null_counts_and_warning() -> None:
    dag_map = map_from_snapshot(make_snapshot(DAG))
    assert dag_map["stages"][0]["order"] == ["plan", "write"]
    assert dag_map["stages"][0]["expected"] == {
        "total": None,
        "steps": {"plan": None, "write": None},
    }
    assert dag_map["warnings"] == ["expected jobs unknown: models are not set"]


def test_map_with_a_list_of_unknown_length_has_no_warning() -> None:
    steps = [make_step("read", Strategy.PER_ITEM, inputs=["contracts"]), make_step("sum")]
    answer = map_from_snapshot(write_definition(make_dag(make_stage("only", *steps))), MODELS)
    assert answer["stages"][0]["expected"]["steps"] == {"read": None, "sum": 2}
    assert "warnings" not in answer


def test_map_lists_invalid_stage_runs_in_the_warnings() -> None:
    dag_map = map_from_snapshot(make_snapshot(DAG, runs={"antithesis": MODELS, "sonata": MODELS}))
    assert dag_map["warnings"] == [
        "a stage run of an unknown stage: 'sonata'",
        "expected jobs of 'thesis' and the later stages unknown",
    ]


def test_map_of_a_stage_with_a_cycle_raises_bad_recipe() -> None:
    dag = make_dag(
        make_stage("thesis", make_step("a"), make_step("b"), edges=[("a", "b"), ("b", "a")])
    )
    with pytest.raises(BadRecipe, match="form a cycle"):
        map_from_snapshot(make_snapshot(dag))
