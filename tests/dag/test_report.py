"""Report of a run: fields, counts, and fields that may be null."""

from dag_builders import make_chain, make_dag, make_output, make_plan_step, make_stage, make_step
from report_invariants import check
from waybook.dag.definitions.definition import graphs_of
from waybook.dag.model import Dag, ProgressStatus, Strategy
from waybook.dag.progress.report import AvailableDocument, Report, StageEvidence, report
from waybook.dag.progress.structure import Evidence, Structure, valid_structure

TOPICS = ("business-case", "feature-spec", "technical-approach", "success-metrics")
PRODUCTS = ("product-requirements", "system-architecture", "tech-stack")
HEADER, FINAL_HEADER = "prepare-pairwise-synthesis-header", "generate-final-synthesis-header"

#: Stage in the documentation's example, with two `PLAN` steps and eleven `EXECUTE` steps.
SYNTHESIS = make_stage(
    "synthesis",
    make_plan_step(HEADER),
    *(make_step(f"pairwise-synthesis-{topic}", Strategy.PAIRWISE_BY_ORIGIN) for topic in TOPICS),
    *(make_step(f"synthesis-document-{topic}") for topic in TOPICS),
    make_plan_step(FINAL_HEADER),
    *(make_step(product, Strategy.ALL_TO_ONE) for product in PRODUCTS),
    edges=[
        edge
        for topic in TOPICS
        for edge in make_chain(
            HEADER, f"pairwise-synthesis-{topic}", f"synthesis-document-{topic}", FINAL_HEADER
        )
    ]
    + [(FINAL_HEADER, product) for product in PRODUCTS],
)
DIALECTIC = make_dag(
    make_stage("thesis"),
    make_stage("antithesis"),
    SYNTHESIS,
    make_stage("parenthesis"),
    make_stage("paralysis"),
)

CLOSED, DONE, RUNNING = Evidence(closed=True), Evidence(done=27), Evidence(done=20, active=7)
MODELS = ("alpha", "beta", "gamma")


def make_report(dag: Dag, **seen: StageEvidence) -> Report:
    """Return the report of a valid DAG, after checking the invariants."""
    result = report(valid_structure(dag, graphs_of(dag)), seen)
    assert check(result) == []
    return result


def halfway() -> Report:
    """Return the report of the documentation's example: two stages completed, one in progress."""
    done = StageEvidence(models=MODELS, steps={"thesis-work": CLOSED})
    done_too = StageEvidence(models=MODELS, steps={"antithesis-work": CLOSED})
    steps = {
        HEADER: Evidence(done=1),
        "pairwise-synthesis-business-case": DONE,
        "pairwise-synthesis-feature-spec": RUNNING,
        "synthesis-document-business-case": Evidence(done=3),
    }
    synthesis = StageEvidence(models=MODELS, steps=steps)
    return make_report(DIALECTIC, thesis=done, antithesis=done_too, synthesis=synthesis)


def test_half_done_dialectic_stage_shows_3_of_13_steps_done() -> None:
    result = halfway()
    assert result["dagProgress"] == {"completedStages": 2, "totalStages": 5}
    stage = result["stages"][2]
    assert stage["status"] == "in_progress"
    assert stage["progress"] == {"completedSteps": 3, "totalSteps": 13, "failedSteps": 0}
    assert round(100 * 3 / 13) == 23


def test_half_done_dialectic_stage_shows_every_step_status() -> None:
    steps = {step["stepKey"]: str(step["status"]) for step in halfway()["stages"][2]["steps"] or ()}
    completed = {HEADER, "pairwise-synthesis-business-case", "synthesis-document-business-case"}
    assert {key for key, status in steps.items() if status == "completed"} == completed
    running = {key for key, status in steps.items() if status == "in_progress"}
    assert running == {"pairwise-synthesis-feature-spec"}
    assert list(steps.values()).count("not_started") == 9


def test_unstarted_stage_has_zero_counts_in_the_report() -> None:
    (*_, last) = halfway()["stages"]
    assert last == {
        "stageSlug": "paralysis",
        "status": "not_started",
        "modelCount": None,
        "progress": {"completedSteps": 0, "totalSteps": 0, "failedSteps": 0},
        "steps": [],
        "documents": [],
        "documentsExpected": None,
        "documentsAvailable": 0,
        "warnings": [],
    }


def test_run_report_has_the_documented_fields_in_documented_order() -> None:
    dag = make_dag(
        make_stage("thesis", make_step("write", outputs=[make_output("text", "# Text")]))
    )
    evidence = Evidence(done=2, active=1, failed=0, started_at="t1", completed_at=None)
    seen = StageEvidence(
        models=("alpha", "beta"),
        steps={"write": evidence},
        documents=(AvailableDocument("text", "alpha", "r1"),),
    )
    result = make_report(dag, thesis=seen)
    assert list(result) == ["dagProgress", "stages", "warnings"]
    (stage,) = result["stages"]
    assert list(stage.items()) == [
        ("stageSlug", "thesis"),
        ("status", "in_progress"),
        ("modelCount", 2),
        ("progress", {"completedSteps": 0, "totalSteps": 1, "failedSteps": 0}),
        (
            "steps",
            [
                {
                    "stepKey": "write",
                    "status": "in_progress",
                    "jobs": {"done": 2, "active": 1, "failed": 0},
                    "startedAt": "t1",
                    "completedAt": None,
                }
            ],
        ),
        (
            "documents",
            [
                {
                    "documentKey": "text",
                    "modelId": "alpha",
                    "resourceId": "r1",
                    "status": "available",
                }
            ],
        ),
        ("documentsExpected", 2),
        ("documentsAvailable", 1),
        ("warnings", []),
    ]


CHAIN = make_dag(make_stage("thesis"), make_stage("antithesis"), make_stage("synthesis"))


def test_stage_without_valid_steps_and_edges_has_null_status() -> None:
    graphs = {slug: graph for slug, graph in graphs_of(CHAIN).items() if slug != "antithesis"}
    structure = Structure(dag=CHAIN, graphs=graphs, valid=frozenset(graphs))
    seen = {
        slug: StageEvidence(models=MODELS, steps={f"{slug}-work": CLOSED})
        for slug in ("thesis", "antithesis", "synthesis")
    }
    result = report(structure, seen, {"antithesis": ["its edges go round"]})
    assert check(result) == []
    assert result["dagProgress"] == {"completedStages": 2, "totalStages": 3}
    thesis, antithesis, synthesis = result["stages"]
    assert (antithesis["status"], antithesis["progress"], antithesis["steps"]) == (None, None, None)
    assert antithesis["modelCount"] == 3
    assert antithesis["warnings"] == [
        "expected documents unknown: an earlier recipe is not a valid graph",
        "its edges go round",
        "step progress is unknown: the recipe is not a valid graph",
    ]
    assert (thesis["documentsExpected"], thesis["warnings"]) == (3, [])
    assert (synthesis["status"], synthesis["documentsExpected"]) == (ProgressStatus.COMPLETED, None)


def test_report_shows_the_number_of_models_of_each_stage() -> None:
    seen = {
        "thesis": StageEvidence(models=("alpha",)),
        "antithesis": StageEvidence(models=MODELS),
        "synthesis": StageEvidence(),
    }
    result = make_report(CHAIN, **seen)
    assert [stage["modelCount"] for stage in result["stages"]] == [1, 3, None]
    assert [stage["documentsExpected"] for stage in result["stages"]] == [1, 3, None]
    assert result["stages"][2]["warnings"] == ["expected documents unknown: models are not set"]


def test_stage_without_models_uses_models_of_earlier_stage() -> None:
    pairs = make_step("pairs", Strategy.PAIRWISE_BY_ORIGIN)
    dag = make_dag(make_stage("thesis"), make_stage("antithesis"), make_stage("synthesis", pairs))
    seen = {slug: StageEvidence(models=MODELS) for slug in ("thesis", "synthesis")}
    assert make_report(dag, **seen)["stages"][2]["documentsExpected"] == 27


def test_report_shows_stored_step_status_even_if_a_later_step_is_done() -> None:
    standings = {"first": ProgressStatus.NOT_STARTED, "second": ProgressStatus.COMPLETED}
    dag = make_dag(make_stage("plan", *map(make_step, standings), edges=make_chain(*standings)))
    (stage,) = make_report(dag, plan=StageEvidence(standings=standings))["stages"]
    assert [step["status"] for step in stage["steps"] or ()] == [*standings.values()]
    assert (stage["status"], stage["warnings"]) == (ProgressStatus.IN_PROGRESS, [])
