from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_input, make_output, make_plan_step, make_step
from plan_builders import BOB, NOON
from run_env import RunEnv, make_run, make_stage_run
from run_row_store import changes_of
from waybook.core.changes import Entity, text_hash
from waybook.core.usage import Totals, Usage
from waybook.dag.model import JobStatus, JobType, Output, Strategy
from waybook.errors import InvalidInput, InvalidTransition, StaleAttempt, TooLarge
from waybook.run.model import MAX_PARTS
from waybook.run.submit import SubmittedDocument

J = JobStatus
S = Strategy


def single_job(*outputs: str | Output) -> RunEnv:
    """Return a run with one job, which produces these outputs; the default is one output, `a`."""
    return make_run(make_stage_run(make_step("a", S.ALL_TO_ONE, outputs=outputs)))


def make_plan_for_all() -> RunEnv:
    """Return a run whose first step has one job with two outputs, `goals` and `means`."""
    plan = make_plan_step("plan", outputs=["goals", "means"])
    work = make_step("work", S.PER_SOURCE_DOCUMENT, inputs=[make_input("goals")])
    return make_run(make_stage_run(plan, work, edges=[("plan", "work")]))


def places(world: RunEnv, step: str) -> list[tuple[str, str, str]]:
    return [
        (document.document_key, document.origin.model, document.content)
        for document in world.documents(step)
    ]


def handed(content: str, key: str | None = None, model: str | None = None) -> SubmittedDocument:
    return SubmittedDocument(content=content, document_key=key, model=model)


def test_submitting_a_job_completes_the_job_and_stores_the_document() -> None:
    world = single_job()
    done = world.submit(world.claim(), "# Found", usage=Usage(output_tokens=7))
    job = world.job(done.job)
    assert (job.status, job.completed_at) == (J.COMPLETED, NOON)
    assert world.run.usage == Totals(output_tokens=7, results=1)
    (document,) = world.documents("a")
    assert done.documents == (document.id,)
    assert (document.content, document.document_key, document.version) == ("# Found", "a", 1)
    assert (document.job_id, document.stage, document.step_key) == (job.id, "only", "a")
    assert done.continuation is None


def test_audit_of_a_job_has_document_hash_but_no_text() -> None:
    world = single_job()
    job = world.claim()
    world.submit(job, "# Found")
    assert world.decision is not None
    (entry,) = world.decision.entries
    (document,) = world.documents("a")
    assert entry.event == "step_completed"
    assert entry.details == {
        "jobId": job.id,
        "stageSlug": "only",
        "stepKey": "a",
        "attempt": 1,
        "documents": [document.id],
    }
    (row,) = (change.new for change in entry.changes if change.entity is Entity.DOCUMENT)
    assert isinstance(row, dict)
    assert row["content_hash"] == text_hash("# Found")
    assert "# Found" not in str(entry)


def test_completed_job_cannot_be_submitted_again() -> None:
    world = single_job()
    job = world.claim()
    world.submit(job, "text")
    with pytest.raises(InvalidTransition, match="is completed, and you do not hold it") as refusal:
        world.submit(job, "text")
    assert refusal.value.details == {"jobId": job.id, "from": "completed", "to": "completed"}


def test_unclaimed_job_cannot_be_submitted() -> None:
    world = single_job()
    (job,) = world.jobs("a")
    with pytest.raises(InvalidTransition, match="first call get_next_job"):
        world.submit(job, "text")


def test_result_for_a_failed_job_is_refused_but_stored() -> None:
    world = single_job()
    job = world.claim()
    world.fail(job, retryable=False)
    with pytest.raises(InvalidTransition, match="this job is failed"):
        world.submit(job, "mine")
    assert world.details() == [{"action": "late_result", "jobId": job.id, "attempt": 1}]
    assert world.documents("a") == []


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8))
def test_submitting_the_last_part_joins_all_parts_into_a_document(parts: list[str]) -> None:
    world = single_job()
    for part in parts[:-1]:
        world.submit(world.claim(), part, continues=True)
        assert world.step("a").done == 0
    world.submit(world.claim(), parts[-1])
    (document,) = world.documents("a")
    assert document.content == "".join(parts)
    assert (world.step("a").done, world.step("a").closed_at) == (1, NOON)
    assert len(world.jobs("a")) == len(parts)


def test_retry_of_a_failed_text_part_keeps_all_earlier_parts() -> None:
    world = single_job()
    world.submit(world.claim(), "One, ", continues=True)
    world.fail(world.claim(), retryable=False)
    assert world.step("a").failed == 1
    world.retry("only")
    world.submit(world.claim(), "two.")
    assert [document.content for document in world.documents("a")] == ["One, two."]


def test_last_part_of_a_text_may_name_the_document_key() -> None:
    world = single_job("text")
    world.submit(world.claim(), "One, ", continues=True)
    world.submit(world.claim(), handed("two.", "text", "alpha"))
    assert places(world, "a") == [("text", "alpha", "One, two.")]


def test_text_with_too_many_parts_is_refused() -> None:
    world = single_job()
    for _ in range(MAX_PARTS - 1):
        world.submit(world.claim(), "x", continues=True)
    last = world.claim()
    with pytest.raises(TooLarge, match="submit the rest as the last part") as refusal:
        world.submit(last, "x", continues=True)
    assert refusal.value.details == {"limit": MAX_PARTS}
    world.submit(last, "x")
    assert [document.content for document in world.documents("a")] == ["x" * MAX_PARTS]


@pytest.mark.parametrize("continues", [False, True])
def test_partial_result_with_texts_of_two_documents_is_refused(*, continues: bool) -> None:
    world = single_job("text", "data")
    world.submit(world.claim(), "One, ", continues=True)
    job = world.claim()
    with pytest.raises(InvalidInput, match="must be submitted as exactly one document"):
        world.submit(job, handed("two.", "text"), handed("2", "data"), continues=continues)
    assert world.job(job).status is J.PROCESSING


@pytest.mark.parametrize(
    ("submissions", "expected"),
    [
        ([("G", "goals", None), ("M", "means", None)], "G G M M"),
        ([("A", None, "alpha"), ("B", None, "beta")], "A B A B"),
        ([("Ma", "means", "alpha"), ("G", "goals", None), ("Mb", "means", "beta")], "G G Ma Mb"),
    ],
)
def test_submitted_texts_are_assigned_by_document_key_and_model(
    submissions: Sequence[tuple[str, str | None, str | None]], expected: str
) -> None:
    world = make_plan_for_all()
    world.submit(world.claim(), *(handed(*submission) for submission in submissions))
    assert [content for _, _, content in places(world, "plan")] == expected.split()


def test_error_for_missing_documents_lists_the_missing_documents() -> None:
    world = make_plan_for_all()
    job = world.claim()
    with pytest.raises(InvalidInput, match="3 of 4 documents are missing") as refusal:
        world.submit(job, handed("G", "goals", "alpha"))
    assert refusal.value.details["missing"] == [
        {"documentKey": "goals", "modelId": "beta"},
        {"documentKey": "means", "modelId": "alpha"},
        {"documentKey": "means", "modelId": "beta"},
    ]
    assert world.job(job).status is J.PROCESSING
    assert world.documents("plan") == []


def test_error_for_many_missing_documents_lists_the_first_twenty() -> None:
    world = single_job(*(f"d{number}" for number in range(30)))
    with pytest.raises(InvalidInput, match="29 of 30 documents are missing") as refusal:
        world.submit(world.claim(), handed("x", "d0"))
    missing = refusal.value.details["missing"]
    assert isinstance(missing, list)
    assert len(missing) == 20


def test_submitting_the_same_document_twice_raises_invalid_input() -> None:
    world = make_plan_for_all()
    job = world.claim()
    with pytest.raises(InvalidInput, match="'goals' for model 'beta' is submitted twice"):
        world.submit(job, handed("M", "means"), handed("Gb", "goals", "beta"), handed("G", "goals"))
    assert world.job(job).status is J.PROCESSING


@pytest.mark.parametrize(("key", "model"), [("aims", None), ("goals", "gamma"), (None, "gamma")])
def test_error_for_an_unknown_document_lists_valid_keys_and_models(
    key: str | None, model: str | None
) -> None:
    world = make_plan_for_all()
    with pytest.raises(InvalidInput, match="its documents are goals, means") as refusal:
        world.submit(world.claim(), handed("G", key, model))
    assert refusal.value.details == {
        "documentKeys": ["goals", "means"],
        "modelIds": ["alpha", "beta"],
    }


def test_output_with_a_template_creates_a_render_job() -> None:
    world = single_job(make_output("text", "# {{ content }}"), make_output("data"))
    world.submit(world.claim(), "x")
    text, _ = world.documents("a")
    (job,) = world.records.to_render()
    assert (job.job_type, job.document, job.unit, job.counted) == (
        JobType.RENDER,
        text.id,
        None,
        False,
    )
    assert (job.stage, job.step_key, job.model) == ("only", "a", "alpha")
    assert world.run.completed_at == NOON


def test_outputs_without_a_template_are_rendered_only_for_execute_steps() -> None:
    world = make_plan_for_all()
    world.work("plan")
    assert world.records.to_render() == []
    world.work("work")
    assert len(world.records.to_render()) == 2


def test_document_in_parts_is_rendered_after_the_last_part() -> None:
    world = single_job()
    world.submit(world.claim(), "One, ", continues=True)
    assert world.records.to_render() == []
    world.submit(world.claim(), "two.")
    assert len(world.records.to_render()) == 1


def test_text_of_a_submitted_job_never_appears_in_the_audit() -> None:
    world = single_job()
    text = "a text of some length"
    mine = world.claim()
    world.pass_time()
    theirs = world.claim(BOB)
    with pytest.raises(StaleAttempt):
        world.submit(mine, text)
    world.submit(theirs, text, continues=True)
    world.submit(world.claim(), text)
    assert text not in str(world.changes)
    assert world.decision is not None
    assert changes_of(world.decision)
