"""Documents people can read: rendered, and there to be fetched.

A document is available when its RENDER job is completed *and* the rendered document it made is
among the resources. One half without the other is told as a warning, with the stage it is of.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from waybook.dag.diagnostics import quote_name
from waybook.dag.model import JobStatus

#: What a resource must be to count as a document.
RENDERED = "rendered_document"


class RenderJob(NamedTuple):
    """A RENDER job: of which stage, in which status, and what it was to make."""

    id: str
    stage: str | None
    status: str
    document_key: str | None
    model_id: str | None


class Resource(NamedTuple):
    """A rendered document, and the job that made it."""

    id: str
    job_id: str | None
    document_key: str | None
    model_id: str | None


class AvailableDocument(NamedTuple):
    """A document that can be fetched."""

    document_key: str | None
    model_id: str | None
    resource_id: str

    def as_json(self) -> dict[str, object]:
        """The document as it stands in the report."""
        return {
            "documentKey": self.document_key,
            "modelId": self.model_id,
            "resourceId": self.resource_id,
            "status": "available",
        }


@dataclass(frozen=True, slots=True)
class StageDocuments:
    """The documents of one stage, and what is strange about them."""

    documents: tuple[AvailableDocument, ...]
    warnings: tuple[str, ...]


#: Something found out, and the stage it is of, if it is of any.
Finding = tuple[str | None, AvailableDocument | str]


def available_documents(
    renders: Iterable[RenderJob], resources: Iterable[Resource]
) -> dict[str | None, StageDocuments]:
    """The documents available in each stage, whatever order the rows are in."""
    found: dict[str | None, tuple[set[AvailableDocument], set[str]]] = {}
    for stage, finding in _findings(renders, resources):
        documents, warnings = found.setdefault(stage, (set(), set()))
        if isinstance(finding, str):
            warnings.add(finding)
        else:
            documents.add(finding)
    return {
        stage: StageDocuments(tuple(sorted(documents, key=_place)), tuple(sorted(warnings)))
        for stage, (documents, warnings) in found.items()
    }


def _findings(renders: Iterable[RenderJob], resources: Iterable[Resource]) -> Iterator[Finding]:
    jobs: dict[str, RenderJob] = {}
    for render in renders:
        jobs[render.id] = min(render, jobs.get(render.id, render), key=_doubt)
    fetched: set[str | None] = set()
    for resource in resources:
        fetched.add(resource.job_id)
        yield from _found(resource, jobs.get(resource.job_id or ""))
    for job in jobs.values():
        if job.status == JobStatus.COMPLETED and job.id not in fetched:
            told = (
                f"the RENDER job {quote_name(job.id)} is completed, but there is no document of it"
            )
            yield job.stage, told


def _found(resource: Resource, job: RenderJob | None) -> Iterator[Finding]:
    name = f"the rendered document {quote_name(resource.id)}"
    if job is None:
        yield None, f"{name} is of no RENDER job that is known ({quote_name(resource.job_id)})"
    elif job.status == JobStatus.COMPLETED and job.stage is not None:
        key = resource.document_key or job.document_key
        model = resource.model_id or job.model_id
        yield job.stage, AvailableDocument(key, model, resource.id)
        missing = [word for word, said in (("key", key), ("model", model)) if said is None]
        yield from ((job.stage, f"{name} does not say its {word}") for word in missing)
    elif job.status == JobStatus.COMPLETED:
        yield None, f"{name} is of a job that names no stage of this DAG ({quote_name(job.id)})"
    elif job.status != JobStatus.SUPERSEDED:
        # A superseded one made an older version, which is no longer what people should read.
        yield job.stage, f"{name} is of a RENDER job that is not completed ({quote_name(job.id)})"


def _doubt(job: RenderJob) -> tuple[bool, tuple[str, ...]]:
    """Of two jobs of one id, the completed one is believed, whichever comes first."""
    return job.status != JobStatus.COMPLETED, tuple(map(str, job))


def _place(document: AvailableDocument) -> tuple[str, str, str]:
    return document.document_key or "", document.model_id or "", document.resource_id
