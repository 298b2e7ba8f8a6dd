"""Finds which versions of its inputs a document was made from, and whether it is outdated.

When a job is claimed, it gets the latest version of each input. These versions are not stored,
because they follow from the times of claims and documents. A document is outdated if one of its
inputs has a newer version.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from waybook.dag.expansion.inputs import Document, index_documents, input_slots, resolve_inputs
from waybook.dag.expansion.units import Unit
from waybook.dag.graph import Graph
from waybook.run.model import CompiledDag


class DocumentVersion(NamedTuple):
    document: Document
    version: int
    created_at: datetime
    job_id: str
    unit: Unit
    #: Time at which the inputs were read: the claim of the job, or the copying of the document.
    read_at: datetime


class InputVersion(NamedTuple):
    """An input of a document: the version that the job read, and the latest version."""

    read: DocumentVersion
    latest: DocumentVersion

    @property
    def is_outdated(self) -> bool:
        return self.read.version < self.latest.version


def input_versions(
    compiled_dag: CompiledDag, versions: Sequence[DocumentVersion], document_ids: Collection[str]
) -> Mapping[str, tuple[InputVersion, ...]]:
    """Return the inputs of the documents with these ids.

    `versions` must contain all documents of the run, ordered by version.
    """
    history = {same[-1].document.id: same for same in _histories(versions)}
    shelf = index_documents(same[-1].document for same in history.values())
    produced = compiled_dag.produced_documents

    def inputs_of(version: DocumentVersion) -> tuple[InputVersion, ...]:
        resolved = resolve_inputs(*_step(compiled_dag, version), shelf, produced)
        inputs = [history[document.id] for item in resolved for document in item.documents]
        return tuple(
            InputVersion(
                next(
                    (item for item in reversed(same) if item.created_at <= version.read_at), same[0]
                ),
                same[-1],
            )
            for same in inputs
        )

    return {
        version.document.id: inputs_of(version)
        for version in versions
        if version.document.id in document_ids
    }


def _step(compiled_dag: CompiledDag, version: DocumentVersion) -> tuple[Unit, str, Graph]:
    stage = version.document.stage
    return version.unit, stage, compiled_dag.graphs[stage]


def _histories(versions: Sequence[DocumentVersion]) -> Collection[list[DocumentVersion]]:
    """Return a list for each document, with its versions in order."""
    histories: dict[tuple[str | None, ...], list[DocumentVersion]] = {}
    for version in versions:
        document = version.document
        place = document.stage, document.step_key, document.document_key
        origin = document.model, document.lineage, document.reviewer
        histories.setdefault((*place, *origin), []).append(version)
    return histories.values()


def outdated_documents(
    compiled_dag: CompiledDag, versions: Sequence[DocumentVersion]
) -> Collection[str]:
    """Return the ids of the documents that have an input with a newer version."""
    produced = compiled_dag.produced_documents
    newer = {(v.document.stage, v.document.document_key) for v in versions if v.version > 1}
    affected = {
        version.document.id
        for version in versions
        for slot in input_slots(*_step(compiled_dag, version), produced)
        if (slot.stage, slot.document_key) in newer
    }
    inputs = input_versions(compiled_dag, versions, affected)
    return {key for key, items in inputs.items() if any(item.is_outdated for item in items)}


def jobs_after(
    compiled_dag: CompiledDag, versions: Sequence[DocumentVersion], job_id: str
) -> Mapping[str, str]:
    """Return the jobs that depend on documents of this job, also indirectly, in step order.

    The keys are job ids. Each value is the id of a document that the job made.
    """
    latest = [same[-1] for same in _histories(versions)]
    ranks = compiled_dag.dispatch_ranks
    latest.sort(key=lambda item: ranks[item.document.stage, item.document.step_key])
    inputs = input_versions(compiled_dag, versions, {item.document.id for item in latest})
    documents = {job_id: ""}
    for version in latest:
        if any(item.latest.job_id in documents for item in inputs[version.document.id]):
            documents.setdefault(version.job_id, version.document.id)
    del documents[job_id]
    return documents
