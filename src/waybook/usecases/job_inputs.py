"""What a job works from: its prompt, the documents it is given, and what was handed in of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waybook.dag.inputs import Document, index_documents, resolve_inputs
from waybook.dag.model import Input
from waybook.dag.sources import output_keys
from waybook.dag.templates import render_prompt
from waybook.record.moment import Json
from waybook.run.model import Job
from waybook.store import documents, jobs, runs
from waybook.store.documents import DocumentInfo
from waybook.store.sql import Statement
from waybook.usecases.run_call import LockedRun

#: The name under which a person's feedback on a stage is an input.
FEEDBACK = "feedback"

DEFAULT_PROMPT = """\
{{ step.name }}, in the stage {{ stage.name }} of the run "{{ run.name }}".
Work from the inputs handed over with this prompt, and write:
{% for document in documents %}- {{ document.documentKey }}
{% endfor %}{% if feedback %}
What a person said of the stage before: {{ feedback }}
{% endif %}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """One input of a job: a document of the run, or a text from outside."""

    document_key: str
    stage: str | None
    #: How many characters it has.
    length: int
    document: Document | None = None
    #: The text, if it comes from outside.
    text: str = ""
    #: Who wrote it or handed it in, and when.
    by: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMaterials:
    """All a job works from, nothing of it cut; the texts of documents are yet to be fetched."""

    prompt: str
    inputs: Sequence[JobInput]
    #: What was handed in of this piece of work so far.
    so_far: str


async def load_job_materials(locked: LockedRun, job: Job) -> JobMaterials:
    """Find all that a job works from."""
    parts_before = [jobs.parts_statement(job.id)] if job.continues else []
    brief, found, *parts = await locked.send(
        runs.brief_statement(locked.run.id), _documents(locked, job), *parts_before
    )
    run_input: Json = brief[0][0]
    supplied = _supplied(locked, job, documents.read_documents(found), brief[0])
    step = locked.compiled_dag.graphs[job.stage].steps[job.step_key]
    prompt = render_prompt(
        step.prompt or DEFAULT_PROMPT, _context(locked, job, supplied, run_input)
    )
    return JobMaterials(
        prompt=prompt, inputs=supplied, so_far="".join(row[0] for part in parts for row in part)
    )


def _documents(locked: LockedRun, job: Job) -> Statement:
    """The documents that could be inputs of this job."""
    graph = locked.compiled_dag.graphs[job.stage]
    step = graph.steps[job.step_key]
    keys = [one.document_key for one in step.inputs or ()]
    before = [key for one in graph.predecessors[step.key] for key in output_keys(graph.steps[one])]
    return documents.documents_statement(locked.run.id, keys or before)


def _supplied(
    locked: LockedRun, job: Job, found: Mapping[str, DocumentInfo], brief: tuple[Any, ...]
) -> list[JobInput]:
    if job.unit is None:
        return []
    shelf = index_documents(one.document for one in found.values())
    graph = locked.compiled_dag.graphs[job.stage]
    supplied: list[JobInput] = []
    for one in resolve_inputs(
        job.unit, job.stage, graph, shelf, locked.compiled_dag.produced_documents
    ):
        if one.external:
            supplied += _from_outside(locked, one.input, brief)
        supplied += [_document(found[document.id]) for document in one.documents]
    return supplied


def _document(kept: DocumentInfo) -> JobInput:
    document, length, by, at = kept
    key, stage = document.document_key, document.stage
    return JobInput(document_key=key, stage=stage, length=length, document=document, by=by, at=at)


def _from_outside(locked: LockedRun, asked: Input, brief: tuple[Any, ...]) -> Iterator[JobInput]:
    """An input no step makes: a person's feedback on a stage, or what the run was given."""
    key, stage = asked.document_key, asked.stage
    run_input, at, by = brief
    if key == FEEDBACK:
        told_of = locked.run.stages.get(stage or "")
        text = (told_of.feedback if told_of else None) or ""
        by, at = (told_of.feedback_by, told_of.feedback_at) if told_of else (None, None)
    else:
        found = run_input.get(key, run_input) if isinstance(run_input, dict) else run_input
        text = _as_text(found)
    if text:
        yield JobInput(document_key=key, stage=stage, length=len(text), text=text, by=by, at=at)


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _context(
    locked: LockedRun, job: Job, supplied: list[JobInput], run_input: Json
) -> Mapping[str, Any]:
    stage = locked.compiled_dag.stages[job.stage]
    step = locked.compiled_dag.graphs[job.stage].steps[job.step_key]
    return {
        "run": {"name": locked.run.name, "input": run_input},
        "stage": {"slug": stage.slug, "name": stage.name},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
        "model": job.model,
        "lineage": job.unit.lineage if job.unit else None,
        "reviewer": job.unit.reviewer if job.unit else None,
        "models": [*locked.run.stages[job.stage].models],
        "documents": [{"documentKey": key} for key in output_keys(step)],
        "inputs": [_named(one) for one in supplied],
        "feedback": _feedback_before(locked, job.stage),
    }


def _named(one: JobInput) -> Json:
    document = one.document
    return {
        "documentKey": one.document_key,
        "stage": one.stage,
        "model": document.model if document else None,
        "lineage": document.lineage if document else None,
        "title": one.document_key.replace("_", " "),
    }


def _feedback_before(locked: LockedRun, slug: str) -> str | None:
    stages = [locked.run.stages.get(before) for before in locked.compiled_dag.dag.before(slug)]
    said = [stage.feedback for stage in stages if stage and stage.feedback]
    return "\n\n".join(said) or None
