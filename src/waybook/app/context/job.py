"""Builds the context of a job: its prompt, its inputs, and the parts submitted so far.

Each text that was cut comes with the tool call that returns the rest.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import orjson

from waybook.app.request.access import job_not_found
from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.reply import MAX_COMPACT_REPLY_BYTES, fit_views, next_call
from waybook.app.request.request_context import RequestContext
from waybook.core.ids import id_or_nil
from waybook.dag.expansion.inputs import (
    FEEDBACK,
    Document,
    DocumentSlot,
    index_documents,
    input_slots,
    listed_inputs,
    resolve_all,
    unresolved_slots,
)
from waybook.dag.expansion.units import MAX_ITEMS, input_field, read_items
from waybook.dag.graph import output_keys
from waybook.dag.model import Input
from waybook.dag.templates.template import TemplateKind, is_constant, render_template
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.packet import escaped_size, fair_share, truncate
from waybook.run.model import Job
from waybook.store.driver.queries import Row, Statement, first_column
from waybook.store.runs import inputs, jobs, load
from waybook.store.runs.inputs import DocumentInfo
from waybook.store.runs.rows import RunBriefRow

#: Minimum number of bytes for the inputs of a job, even if the prompt is long.
_MIN_INPUT_BYTES = 9_000


class JobInput(NamedTuple):
    document_key: str
    stage: str | None
    length: int
    document: Document | None = None
    text: str = ""
    by: str | None = None
    at: datetime | None = None
    #: If the input is an item of a list: the number of the item, and the length of the list.
    item: int | None = None
    items: int | None = None


class JobMaterials(NamedTuple):
    """Data for the context of a job. The texts of long documents are not loaded yet."""

    prompt: str
    inputs: Sequence[JobInput]
    so_far: str


def input_header(job_input: JobInput) -> Body:
    document = job_input.document
    return non_empty(
        documentKey=job_input.document_key,
        stageSlug=job_input.stage,
        modelId=document.model if document else None,
        lineage=document.lineage if document else None,
        documentId=document.id if document else None,
        item=job_input.item,
        itemCount=job_input.items,
        createdBy=job_input.by,
        createdAt=format_time(job_input.at),
    )


def complete_packet(materials: JobMaterials, documents: list[Json], room: int) -> Body | None:
    """Return the context with uncut texts, or None if they may not fit into `room` bytes."""
    contents: list[Json] = []
    for job_input in materials.inputs:
        if len(job_input.text) < job_input.length:
            return None
        contents.append({**input_header(job_input), "content": job_input.text})
    so_far = materials.so_far or None
    packet = non_empty(prompt=materials.prompt, inputs=contents, documents=documents, soFar=so_far)
    is_small = len(orjson.dumps(packet)) <= _MIN_INPUT_BYTES <= room // 4
    return packet if is_small else None


#: When the inputs of a job are read, the inputs of up to this many free jobs are read and cached.
_READ_AHEAD_JOBS = 8


def _document_statements(
    locked: LockedRun, slots: list[DocumentSlot], as_of: datetime | None
) -> list[Statement]:
    return inputs.documents_statements(locked.run.id, slots, MAX_COMPACT_REPLY_BYTES, as_of)


async def read_documents(
    locked: LockedRun, job: Job, slots_of: Callable[[Job], list[DocumentSlot]]
) -> dict[str, DocumentInfo]:
    """Return the input documents of a job, by id.

    A claimed job gets the versions that were the latest when the job was claimed. If the cached
    run lacks some of the documents, the inputs of the next free jobs are read and cached too.
    """
    slots, cached = slots_of(job), locked.cached_run
    if cached is None:
        return await _read(locked, slots, job.started_at)
    known = [cached.documents.get(slot) for slot in slots]
    if None not in known:
        return {info.document.id: info for infos in known if infos for info in infos}
    near = (other for other in (job, *cached.jobs_after(job, _READ_AHEAD_JOBS)) if other.unit)
    slots_of_jobs = dict.fromkeys(slot for other in near for slot in slots_of(other))
    unknown = [slot for slot in slots_of_jobs if cached.documents.get(slot) is None]
    writes = cached.documents.writes_of(unknown)
    read = await _read(locked, unknown, None)
    cached.documents.put(unknown, writes, read.values())
    return {
        info.document.id: info
        for slot, infos in zip(slots, known, strict=True)
        for info in (inputs.documents_in(slot, read.values()) if infos is None else infos)
    }


async def _read(
    locked: LockedRun, slots: list[DocumentSlot], as_of: datetime | None
) -> dict[str, DocumentInfo]:
    results = await locked.send(*_document_statements(locked, slots, as_of))
    return inputs.read_documents(chain.from_iterable(results))


async def read_job_materials(ctx: RequestContext, run_id: str, job_id: str) -> JobMaterials:
    statement = jobs.SQL["load_job"](job_id=id_or_nil(job_id))
    async with LockedRun(ctx, run_id, statement, is_locked=False) as locked:
        job = jobs.first_job(locked.results[0])
        if job is None:
            raise job_not_found()
        return await load_job_materials(locked, job)


_DEFAULT_PROMPT = """\
{{ step.name }}, in the stage {{ stage.name }} of the run "{{ run.name }}".
Use the inputs that come with this prompt, and write:
{% for document in documents %}- {{ document.documentKey }}
{% endfor %}{% if item %}
This job is about item {{ item.number }} of {{ item.count }}, which is the first input.
{% endif %}{% if feedback %}
A person's feedback on the previous stage: {{ feedback }}
{% endif %}"""


async def load_job_materials(locked: LockedRun, job: Job) -> JobMaterials:
    if locked.cached_run is not None and locked.brief is not None:
        documents = await read_documents(locked, job, partial(_slots, locked))
        run_brief, so_far = locked.brief, ""
    else:
        documents_before = _document_statements(locked, _slots(locked, job), job.started_at)
        parts_before = [jobs.SQL["parts"](job_id=job.id)] if job.continues else []
        statements = (*documents_before, *parts_before, load.SQL["run_brief"](run_id=locked.run.id))
        *rest, brief_rows = await locked.send(*statements)
        count, run_brief = len(documents_before), brief_rows[0]
        documents = inputs.read_documents(chain.from_iterable(rest[:count]))
        so_far = "".join(chain.from_iterable(map(first_column, rest[count:])))
    supplied = await _supplied(locked, job, documents, run_brief)
    step = locked.compiled_dag.graphs[job.stage].steps[job.step_key]
    prompt = step.prompt or _DEFAULT_PROMPT
    context = {} if is_constant(prompt) else _context(locked, job, supplied, run_brief.input)
    return JobMaterials(render_template(prompt, TemplateKind.PROMPT, context), supplied, so_far)


def _slots(locked: LockedRun, job: Job) -> list[DocumentSlot]:
    if job.unit is None:
        return []
    dag = locked.compiled_dag
    return input_slots(job.unit, job.stage, dag.graphs[job.stage], dag.produced_documents)


async def _supplied(
    locked: LockedRun, job: Job, documents: dict[str, DocumentInfo], brief: RunBriefRow
) -> list[JobInput]:
    if job.unit is None:
        return []
    dag = locked.compiled_dag
    unit_place = (job.unit, job.stage, dag.graphs[job.stage])
    shelf = index_documents(item.document for item in documents.values())
    resolved = resolve_all(*unit_place, shelf, dag.produced_documents)
    unresolved = unresolved_slots(resolved, job.stage)
    searched = _slots(locked, job) if unresolved else []
    if missing := [slot for slot in unresolved if slot not in searched]:
        more = await read_documents(locked, job, lambda _: missing)
        unchanged = {key: info for key, info in documents.items() if key not in more}
        documents = {**unchanged, **more}
        shelf = index_documents(item.document for item in documents.values())
        resolved = resolve_all(*unit_place, shelf, dag.produced_documents)
    supplied: list[JobInput] = []
    for item in listed_inputs(resolved):
        if item.item is not None:
            supplied.append(await _item(locked, job, item.item, brief))
        if item.external:
            supplied += _from_outside(locked, item.input, brief)
        for info in (documents[document.id] for document in item.documents):
            job_input = JobInput(
                document_key=info.document.document_key,
                stage=info.document.stage,
                length=info.length,
                document=info.document,
                text=info.content or "",
                by=info.by,
                at=info.at,
            )
            supplied.append(job_input)
    return supplied


async def _item(locked: LockedRun, job: Job, number: int, brief: RunBriefRow) -> JobInput:
    """Return the input of a job whose step has one job for each item of a list."""
    item_list = locked.compiled_dag.item_lists[job.stage, job.step_key]
    known = next(known for known in locked.run.lists if known.name == item_list.name)
    source = input_field(brief.input, item_list.document_key)
    if known.document is not None:
        (rows,) = await locked.send(jobs.contents_statement([known.document], _MAX_LIST_CHARACTERS))
        source = rows[0].content
    text = document_text(read_items(source, item_list)[number - 1])
    return JobInput(
        document_key=item_list.document_key,
        stage=item_list.stage,
        length=len(text),
        text=text,
        by=brief.created_by if known.document is None else None,
        at=brief.created_at if known.document is None else None,
        item=number,
        items=known.length,
    )


def _from_outside(locked: LockedRun, input_: Input, brief: RunBriefRow) -> Iterator[JobInput]:
    """Yield inputs that no step produces: feedback on a stage, or the input of the run."""
    key, stage = input_.document_key, input_.stage
    by: str | None = brief.created_by
    at: datetime | None = brief.created_at
    if key == FEEDBACK:
        stage_run = locked.run.stages.get(stage or "")
        text = (stage_run.feedback if stage_run else None) or ""
        by, at = (stage_run.feedback_by, stage_run.feedback_at) if stage_run else (None, None)
    else:
        text = document_text(input_field(brief.input, key))
    if text:
        yield JobInput(document_key=key, stage=stage, length=len(text), text=text, by=by, at=at)


def document_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _context(
    locked: LockedRun, job: Job, supplied: list[JobInput], run_input: Json
) -> Mapping[str, Any]:
    stage = locked.compiled_dag.stages[job.stage]
    step = locked.compiled_dag.graphs[job.stage].steps[job.step_key]
    before = (locked.run.stages.get(slug) for slug in locked.compiled_dag.dag.before(job.stage))
    feedback = [stage_run.feedback for stage_run in before if stage_run and stage_run.feedback]
    return {
        "run": {"name": locked.run.name, "input": run_input},
        "stage": {"slug": stage.slug, "name": stage.name},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
        "model": job.model,
        "lineage": job.unit.lineage if job.unit else None,
        "reviewer": job.unit.reviewer if job.unit else None,
        "item": next(
            (
                {"number": source.item, "count": source.items, "text": source.text}
                for source in supplied
                if source.item is not None
            ),
            None,
        ),
        "models": [*locked.run.stages[job.stage].models],
        "documents": [{"documentKey": key} for key in output_keys(step)],
        "inputs": [
            {
                "documentKey": source.document_key,
                "stage": source.stage,
                "model": source.document.model if source.document else None,
                "lineage": source.document.lineage if source.document else None,
                "title": source.document_key.replace("_", " "),
            }
            for source in supplied
        ],
        "feedback": "\n\n".join(feedback) or None,
    }


_MAX_DOCUMENT_LIST_BYTES = 12_000
#: Upper limit for the text of a list. Documents are limited in size, so no list reaches this limit.
_MAX_LIST_CHARACTERS = 1 << 24
MIN_SHARE_BYTES = 200
PROMPT = "$prompt"
SO_FAR = "$soFar"
DOCUMENTS = "$documents"


async def build_job_packet(locked: LockedRun, job: Job, room: int) -> Body:
    """Return the prompt and the inputs of a job, cut so that they fit into `room` bytes."""
    materials = await load_job_materials(locked, job)
    every = required_documents(locked, job)
    complete = None if job.document else complete_packet(materials, every, room)
    if complete is not None:
        return complete
    cut: Body = {}
    wanted = fit_views(every, _MAX_DOCUMENT_LIST_BYTES)
    if len(wanted) < len(every):
        cut["documents"] = _rest(job, len(every) - len(wanted), DOCUMENTS, offset=len(wanted))
    left = room - len(orjson.dumps(wanted))
    prompt = truncate(materials.prompt, left - _MIN_INPUT_BYTES)
    if len(prompt) < len(materials.prompt):
        cut["prompt"] = _rest(job, len(materials.prompt) - len(prompt), PROMPT, offset=len(prompt))
    left -= escaped_size(prompt)
    so_far = truncate(materials.so_far[::-1], left // 3)[::-1]
    if len(so_far) < len(materials.so_far):
        cut["soFar"] = _rest(job, len(materials.so_far) - len(so_far), SO_FAR)
    previous = await _previous(locked, job, left // 3, cut)
    left -= escaped_size(so_far) + escaped_size(previous)
    inputs = await _with_contents(locked, job, materials.inputs, left)
    if len(inputs) < len(materials.inputs):
        cut["inputs"] = _rest(job, len(materials.inputs) - len(inputs), offset=len(inputs))
    return non_empty(
        prompt=prompt,
        inputs=inputs,
        documents=wanted,
        soFar=so_far or None,
        previousVersion=previous or None,
        cut=cut or None,
    )


def _rest(job: Job, left: int, key: str | None = None, *, offset: int | None = None) -> Json:
    args: Body = non_empty(jobId=job.id, documentKey=key, offset=offset)
    return {"left": left, "get": next_call("get_job_input", "Read the rest.", **args)}


async def _previous(locked: LockedRun, job: Job, room: int, cut: Body) -> str:
    if job.document is None:
        return ""
    rows: list[Row]
    (rows,) = await locked.send(
        jobs.SQL["content"](run_id=locked.run.id, document_id=job.document, start=0, most=room)
    )
    length, content = rows[0].length, truncate(rows[0].content, room)
    if len(content) < length:
        args: Body = {"jobId": job.id, "documentId": job.document, "offset": len(content)}
        get = next_call("get_job_input", "Read the rest.", **args)
        cut["previousVersion"] = {"left": length - len(content), "get": get}
    return content


def required_documents(locked: LockedRun, job: Job) -> list[Json]:
    step = locked.compiled_dag.graphs[job.stage].steps[job.step_key]
    made = job.unit.makes if job.unit else ()
    if len(made) == 1:
        documents: list[Json] = []
        for key in output_keys(step):
            document: Body = {"documentKey": key}
            if item_list := locked.compiled_dag.produced_lists.get((job.stage, key)):
                most = item_list.max_items or MAX_ITEMS
                document["format"] = f"JSON array with at most {most:,} items, one per job"
            documents.append(document)
        return documents
    return [{"documentKey": key, "modelId": out.model} for key in output_keys(step) for out in made]


async def _with_contents(
    locked: LockedRun, job: Job, supplied: Sequence[JobInput], room: int
) -> list[Json]:
    """Return as many inputs as fit into `room` bytes. Long contents are cut."""
    shown: list[JobInput] = []
    left = room
    for job_input in supplied:
        frame = len(orjson.dumps(_view(job_input, job, ""))) + 1
        room -= frame + min(MIN_SHARE_BYTES, job_input.length)
        if room < 0:
            break
        shown.append(job_input)
        left -= frame
    left = max(MIN_SHARE_BYTES, left)
    share = fair_share([job_input.length for job_input in shown], left)
    ids = [
        job_input.document.id
        for job_input in shown
        if job_input.document and len(job_input.text) < job_input.length
    ]
    contents: dict[str, str] = {}
    if ids:
        (rows,) = await locked.send(jobs.contents_statement(ids, share))
        contents = dict(rows)
    texts = [
        contents.get(job_input.document.id if job_input.document else "", job_input.text[:share])
        for job_input in shown
    ]
    share = fair_share([escaped_size(text) for text in texts], left)
    return [
        _view(job_input, job, truncate(text, share))
        for job_input, text in zip(shown, texts, strict=True)
    ]


def _view(job_input: JobInput, job: Job, text: str) -> Body:
    named = input_header(job_input)
    if len(text) == job_input.length:
        return {**named, "content": text}
    which = ("documentId",) if job_input.document else ("documentKey", "stageSlug")
    args = {name: named[name] for name in which if name in named}
    rest = next_call("get_job_input", "Read the rest.", jobId=job.id, **args, offset=len(text))
    return {**named, "content": text, "cut": {"left": job_input.length - len(text), "get": rest}}
