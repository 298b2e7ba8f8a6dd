"""Rendered documents that are available, and warnings about missing documents or jobs."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.dag.model import JobStatus
from waybook.dag.progress.report import (
    AvailableDocument,
    RenderJob,
    Resource,
    StageDocuments,
    available_documents,
)

RENDER = RenderJob("j1", "thesis", "completed", "business_case", "alpha")
RESOURCE = Resource("r1", "j1", None, None)


def test_document_of_a_completed_render_job_is_available() -> None:
    document = AvailableDocument("business_case", "alpha", "r1")
    assert available_documents([RENDER], [RESOURCE]) == {"thesis": StageDocuments((document,), ())}
    assert document.as_json() == {
        "documentKey": "business_case",
        "modelId": "alpha",
        "resourceId": "r1",
        "status": "available",
    }


def test_fields_of_a_document_override_fields_of_the_render_job() -> None:
    resource = RESOURCE._replace(document_key="feature_spec", model_id="beta")
    (document,) = available_documents([RENDER], [resource])["thesis"].documents
    assert document == AvailableDocument("feature_spec", "beta", "r1")


def test_completed_render_job_without_a_document_causes_a_warning() -> None:
    documents = available_documents([RENDER], [])
    warning = "the RENDER job 'j1' is completed, but there is no document of it"
    assert documents == {"thesis": StageDocuments((), (warning,))}


@pytest.mark.parametrize("job_id", [None, "j2"])
def test_document_without_a_known_render_job_causes_a_warning(job_id: str | None) -> None:
    documents = available_documents([], [RESOURCE._replace(job_id=job_id)])
    warning = f"the rendered document 'r1' belongs to no known RENDER job ({job_id!r})"
    assert documents == {None: StageDocuments((), (warning,))}


@pytest.mark.parametrize(
    "status", [*sorted(set(JobStatus) - {"completed", "superseded"}), "paused"]
)
def test_document_of_an_uncompleted_render_job_causes_a_warning(status: str) -> None:
    documents = available_documents([RENDER._replace(status=status)], [RESOURCE])
    warning = "the rendered document 'r1' is of a RENDER job that is not completed ('j1')"
    assert documents == {"thesis": StageDocuments((), (warning,))}


def test_superseded_version_of_a_document_is_not_available() -> None:
    renders = [RENDER._replace(id="old", status="superseded"), RENDER._replace(id="new")]
    resources = [Resource("v1", "old", None, None), Resource("v2", "new", None, None)]
    (document,) = available_documents(renders, resources)["thesis"].documents
    assert document.resource_id == "v2"


@pytest.mark.parametrize("status", sorted(set(JobStatus) - {"completed"}))
def test_uncompleted_render_job_without_document_causes_no_warning(status: str) -> None:
    assert available_documents([RENDER._replace(status=status)], []) == {}


def test_document_of_a_job_without_a_stage_causes_a_warning() -> None:
    documents = available_documents([RENDER._replace(stage=None)], [RESOURCE])
    warning = "the rendered document 'r1' is of a job that names no stage of this DAG ('j1')"
    assert documents == {None: StageDocuments((), (warning,))}


def test_document_without_key_and_model_is_available_with_warnings() -> None:
    shelf = available_documents([RENDER._replace(document_key=None, model_id=None)], [RESOURCE])[
        "thesis"
    ]
    assert shelf.documents == (AvailableDocument(None, None, "r1"),)
    assert shelf.warnings == (
        "the rendered document 'r1' does not say its key",
        "the rendered document 'r1' does not say its model",
    )


def test_document_is_available_if_any_matching_job_completed() -> None:
    twins = [RENDER._replace(status="processing"), RENDER]
    assert available_documents(twins, [RESOURCE]) == available_documents(twins[::-1], [RESOURCE])
    assert available_documents(twins, [RESOURCE])["thesis"].documents


IDS = st.sampled_from(["j1", "j2", "j3"])
NAMES = st.none() | st.sampled_from(["x", "y"])
RENDERS = st.lists(
    st.builds(RenderJob, IDS, NAMES, st.sampled_from(["completed", "failed", "odd"]), NAMES, NAMES)
)
RESOURCES = st.lists(
    st.builds(Resource, st.sampled_from(["r1", "r2"]), st.none() | IDS, NAMES, NAMES)
)


@given(RENDERS, RESOURCES, st.randoms(use_true_random=False))
def test_available_documents_do_not_depend_on_row_order(
    renders: list[RenderJob], resources: list[Resource], chance: Random
) -> None:
    before = available_documents(renders, resources)
    chance.shuffle(renders)
    chance.shuffle(resources)
    assert available_documents(renders, resources) == before
