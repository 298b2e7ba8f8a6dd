from dag_builders import make_dag, make_output, make_stage, make_step
from run_env import RunEnv, make_run, make_stage_run
from waybook.core.changes import Entity, text_hash
from waybook.dag.model import JobStatus, JobType

PAGE = Entity.RENDERED_DOCUMENT


def two_documents() -> RunEnv:
    """Return a run with completed jobs, and with two documents that are not rendered yet."""
    world = make_run(make_stage_run(make_step("a", outputs=[make_output("text", "# Text")])))
    world.work()
    return world


def documents(world: RunEnv) -> tuple[int | None, int]:
    """Return how many documents the report expects, and how many it has."""
    assert world.report is not None
    stage = world.report["stages"][0]
    return stage["documentsExpected"], stage["documentsAvailable"]


def test_document_is_available_only_after_rendering() -> None:
    world = two_documents()
    assert documents(world) == (2, 0)
    assert world.render(most=1) == 1
    assert documents(world) == (2, 1)
    assert world.render() == 1
    assert documents(world) == (2, 2)


def test_rendering_stores_page_and_hash_and_completes_the_job() -> None:
    world = two_documents()
    waiting = world.records.to_render()
    world.render()
    for job in waiting:
        ended = world.job(job)
        assert (ended.status, ended.attempt) == (JobStatus.COMPLETED, 1)
        assert ended.completed_at == world.records.now
    pages = [page for (of, _), page in world.records.texts.items() if of is PAGE]
    assert [row["document_id"] for row, _ in pages] == [
        document.id for document in world.documents("a")
    ]
    assert [row["job_id"] for row, _ in pages] == [job.id for job in waiting]
    assert pages[0][0]["content_hash"] == text_hash("# Text", "<h1>Text</h1>")
    assert world.events() == ["plan_modified"]
    assert world.details() == [{"action": "rendered", "documents": 2}]


def test_rendering_without_pending_render_jobs_writes_nothing() -> None:
    world = two_documents()
    world.render()
    assert world.render() == 0
    assert world.events() == []


def test_pending_render_jobs_do_not_delay_the_completion_of_stages() -> None:
    stages = [
        make_stage(slug, make_step(slug, outputs=[make_output("t", "# T")])) for slug in ("x", "y")
    ]
    world = make_run(make_dag(*stages))
    world.work()
    assert world.stage("x").completed_at is not None
    world.feedback("x")
    world.work()
    assert world.run.completed_at is not None
    assert len(world.records.to_render()) == 4
    assert world.step("x").done == world.step("x").total == 2


def test_both_versions_of_an_unrendered_document_are_rendered() -> None:
    world = two_documents()
    world.regenerate(world.documents("a")[0].id)
    world.work()
    assert len(world.records.to_render()) == 3
    world.render()
    assert documents(world) == (2, 2)
    shown = {available.resource_id for _, available in world.records.available()}
    pages = {
        page: world.records.documents[str(row["document_id"])].version
        for (of, page), (row, _) in world.records.texts.items()
        if of is PAGE
    }
    assert sorted(pages[page] for page in shown) == [1, 2]


def test_render_jobs_are_not_claimable() -> None:
    world = two_documents()
    assert world.records.open() == []
    assert {job.job_type for job in world.records.to_render()} == {JobType.RENDER}
