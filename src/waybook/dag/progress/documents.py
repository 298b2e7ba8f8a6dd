"""Finds the documents that people can read in each stage."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from waybook.dag.diagnostics import quote_name
from waybook.dag.model import JobStatus

RENDERED = "rendered_document"


class RenderJob(NamedTuple):
    id: str
    stage: str | None
    status: str
    document_key: str | None
    model_id: str | None


class Resource(NamedTuple):
    id: str
    job_id: str | None
    document_key: str | None
    model_id: str | None


class AvailableDocument(NamedTuple):
    document_key: str | None
    model_id: str | None
    resource_id: str
    #: Whether an input of the document has a newer version.
    outdated: bool = False

    def as_json(self) -> dict[str, object]:
        return {
            "documentKey": self.document_key,
            "modelId": self.model_id,
            "resourceId": self.resource_id,
            "status": "available",
            **({"outdated": True} if self.outdated else {}),
        }


@dataclass(frozen=True, slots=True)
class StageDocuments:
    documents: tuple[AvailableDocument, ...]
    warnings: tuple[str, ...]


Finding = tuple[str | None, AvailableDocument | str]


def available_documents(
    renders: Iterable[RenderJob], resources: Iterable[Resource]
) -> dict[str | None, StageDocuments]:
    by_stage: dict[str | None, tuple[set[AvailableDocument], set[str]]] = {}
    for stage, finding in _findings(renders, resources):
        documents, warnings = by_stage.setdefault(stage, (set(), set()))
        if isinstance(finding, str):
            warnings.add(finding)
        else:
            documents.add(finding)
    return {
        stage: StageDocuments(tuple(sorted(documents, key=_place)), tuple(sorted(warnings)))
        for stage, (documents, warnings) in by_stage.items()
    }


def _findings(renders: Iterable[RenderJob], resources: Iterable[Resource]) -> Iterator[Finding]:
    jobs: dict[str, RenderJob] = {}
    for render in renders:
        jobs[render.id] = min(render, jobs.get(render.id, render), key=_doubt)
    fetched: set[str | None] = set()
    for resource in resources:
        fetched.add(resource.job_id)
        yield from _examine_resource(resource, jobs.get(resource.job_id or ""))
    for job in jobs.values():
        if job.status == JobStatus.COMPLETED and job.id not in fetched:
            message = (
                f"the RENDER job {quote_name(job.id)} is completed, but there is no document of it"
            )
            yield job.stage, message


def _examine_resource(resource: Resource, job: RenderJob | None) -> Iterator[Finding]:
    name = f"the rendered document {quote_name(resource.id)}"
    if job is None:
        yield None, f"{name} is of no RENDER job that is known ({quote_name(resource.job_id)})"
    elif job.status == JobStatus.COMPLETED and job.stage is not None:
        key = resource.document_key or job.document_key
        model = resource.model_id or job.model_id
        yield job.stage, AvailableDocument(key, model, resource.id)
        missing = [word for word, value in (("key", key), ("model", model)) if value is None]
        yield from ((job.stage, f"{name} does not say its {word}") for word in missing)
    elif job.status == JobStatus.COMPLETED:
        yield None, f"{name} is of a job that names no stage of this DAG ({quote_name(job.id)})"
    elif job.status != JobStatus.SUPERSEDED:
        # People should not read an older version, so this causes no warning.
        yield job.stage, f"{name} is of a RENDER job that is not completed ({quote_name(job.id)})"


def _doubt(job: RenderJob) -> tuple[bool, tuple[str, ...]]:
    return job.status != JobStatus.COMPLETED, tuple(map(str, job))


def _place(document: AvailableDocument) -> tuple[str, str, str]:
    return document.document_key or "", document.model_id or "", document.resource_id
