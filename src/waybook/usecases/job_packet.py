"""What somebody who takes a job is handed: the prompt, and the documents to work from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from waybook.dag.inputs import Document, Given, inputs_of, shelve
from waybook.dag.sources import makes
from waybook.dag.templates import render_prompt
from waybook.record.moment import Json
from waybook.run.model import Job
from waybook.store import documents, jobs, runs
from waybook.usecases.call import Body
from waybook.usecases.run_call import HeldRun
from waybook.usecases.views import fair_share, following, told

#: What prompt and inputs may take together, in characters.
BUDGET = 38_000
LEAST_FOR_INPUTS = 8_000
LEAST_SHARE = 200
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
class Supplied:
    """One input as it is handed over."""

    document_key: str
    text: str
    #: How long the whole text is.
    length: int
    document: Document | None = None
    stage: str | None = None


async def packet(held: HeldRun, job: Job, budget: int = BUDGET) -> Body:
    """The prompt and the inputs of a job, within a budget."""
    graph = held.chart.graphs[job.stage]
    step = graph.steps[job.step_key]
    keys = [one.document_key for one in step.inputs or ()] or [
        key for before in graph.predecessors[step.key] for key in makes(graph.steps[before])
    ]
    brief, found, parts, earlier = await held.send(
        runs.brief_statement(held.run.id),
        documents.documents_statement(held.run.id, keys),
        jobs.parts_statement(job.id),
        documents.contents_statement([job.document] if job.document else [], budget),
    )
    given = _given(held, job, documents.read_documents(found))
    run_input = brief[0][0]
    supplied = await _supplied(held, given, run_input, budget)
    prompt = render_prompt(step.prompt or DEFAULT_PROMPT, _context(held, job, supplied, run_input))
    left = max(LEAST_FOR_INPUTS, budget - len(prompt))
    before = "".join(part[0] for part in parts)
    return told(
        prompt=prompt,
        inputs=_fitted(supplied, job, left),
        documents=_wanted(held, job),
        soFar=before[-left // 2 :] or None,
        previousVersion=earlier[0][1][: left // 2] if earlier else None,
    )


def _given(
    held: HeldRun, job: Job, found: Mapping[str, tuple[Document, int]]
) -> list[tuple[Given, Mapping[str, int]]]:
    if job.unit is None:
        return []
    shelf = shelve(document for document, _ in found.values())
    given = inputs_of(job.unit, job.stage, held.chart.graphs[job.stage], shelf, held.chart.made)
    lengths = {document_id: length for document_id, (_, length) in found.items()}
    return [(one, lengths) for one in given]


async def _supplied(
    held: HeldRun, given: list[tuple[Given, Mapping[str, int]]], run_input: Json, budget: int
) -> list[Supplied]:
    ids = [document.id for one, _ in given for document in one.documents]
    contents: Mapping[str, str] = {}
    if ids:
        (rows,) = await held.send(documents.contents_statement(ids, budget))
        contents = {row[0]: row[1] for row in rows}
    supplied: list[Supplied] = []
    for one, lengths in given:
        stage = one.input.stage
        if one.external:
            text = outside(held, one.input.document_key, stage, run_input)
            if text:
                key = one.input.document_key
                supplied.append(
                    Supplied(document_key=key, text=text, length=len(text), stage=stage)
                )
        supplied += [
            Supplied(
                document_key=document.document_key,
                text=contents[document.id],
                length=lengths[document.id],
                document=document,
                stage=document.stage,
            )
            for document in one.documents
        ]
    return supplied


def outside(held: HeldRun, key: str, stage: str | None, run_input: Json) -> str:
    """An input no step makes: a person's feedback on a stage, or what the run was given."""
    if key == FEEDBACK:
        told_of = held.run.stages.get(stage or "")
        return (told_of.feedback if told_of else None) or ""
    found = run_input.get(key, run_input) if isinstance(run_input, dict) else run_input
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, indent=1)


def _context(
    held: HeldRun, job: Job, supplied: list[Supplied], run_input: Json
) -> Mapping[str, Json]:
    stage = held.chart.stages[job.stage]
    step = held.chart.graphs[job.stage].steps[job.step_key]
    return {
        "run": {"name": held.run.name, "input": run_input},
        "stage": {"slug": stage.slug, "name": stage.name},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
        "model": job.model,
        "lineage": job.unit.lineage if job.unit else None,
        "reviewer": job.unit.reviewer if job.unit else None,
        "models": [*held.run.stages[job.stage].models],
        "documents": [{"documentKey": key} for key in makes(step)],
        "inputs": [_named(one) for one in supplied],
        "feedback": _feedback_before(held, job.stage),
    }


def _named(one: Supplied) -> Json:
    document = one.document
    return {
        "documentKey": one.document_key,
        "stage": one.stage,
        "model": document.model if document else None,
        "lineage": document.lineage if document else None,
        "title": one.document_key.replace("_", " "),
    }


def _feedback_before(held: HeldRun, slug: str) -> str | None:
    stages = [held.run.stages.get(before) for before in held.chart.dag.before(slug)]
    said = [stage.feedback for stage in stages if stage and stage.feedback]
    return "\n\n".join(said) or None


def _wanted(held: HeldRun, job: Job) -> list[Json]:
    """The documents to hand in; one for each model where the step makes several."""
    step = held.chart.graphs[job.stage].steps[job.step_key]
    made = job.unit.makes if job.unit else ()
    if len(made) == 1:
        return [{"documentKey": key} for key in makes(step)]
    return [{"documentKey": key, "modelId": out.model} for key in makes(step) for out in made]


def _fitted(supplied: list[Supplied], job: Job, budget: int) -> list[Json]:
    share = max(LEAST_SHARE, fair_share([len(one.text) for one in supplied], budget))
    return [_shown(one, job, share) for one in supplied]


def _shown(one: Supplied, job: Job, share: int) -> Json:
    document = one.document
    text = one.text[:share]
    which: Body = {"documentId": document.id} if document else {"documentKey": one.document_key}
    rest = following("get_job_input", "the rest", jobId=job.id, **which, offset=len(text))
    return told(
        documentKey=one.document_key,
        stageSlug=one.stage,
        modelId=document.model if document else None,
        lineage=document.lineage if document else None,
        documentId=document.id if document else None,
        content=text,
        cut={"left": one.length - len(text), "get": rest} if one.length > len(text) else None,
    )
