"""What somebody who takes a job is handed: the prompt, and the documents to work from.

All together is short enough for any client. What is cut says so, beside the call that brings the
rest.
"""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from waybook.dag.sources import output_keys
from waybook.record.moment import Json
from waybook.research.cutting import escaped_size, fair_share, truncate
from waybook.run.model import Job
from waybook.store import documents
from waybook.usecases.call import Body
from waybook.usecases.job_inputs import JobInput, load_job_materials
from waybook.usecases.run_call import LockedRun
from waybook.usecases.views import format_time, next_call, non_empty

#: The most that the names of what is to be made take, in bytes.
MAX_DOCUMENT_LIST_BYTES = 12_000
#: The least there is for inputs beside a long prompt, and for each of them.
MIN_INPUT_BYTES = 9_000
MIN_SHARE_BYTES = 200
#: The names under which get_job_input reads on in what is no document.
PROMPT = "$prompt"
SO_FAR = "$soFar"
DOCUMENTS = "$documents"


async def build_job_packet(locked: LockedRun, job: Job, room: int) -> Body:
    """The prompt and the inputs of a job, in so many bytes."""
    desk = await load_job_materials(locked, job)
    cut: Body = {}
    every = required_documents(locked, job)
    wanted = fit_views(every, MAX_DOCUMENT_LIST_BYTES)
    if len(wanted) < len(every):
        cut["documents"] = _rest(job, len(every) - len(wanted), DOCUMENTS, offset=len(wanted))
    left = room - len(orjson.dumps(wanted))
    prompt = truncate(desk.prompt, left - MIN_INPUT_BYTES)
    if len(prompt) < len(desk.prompt):
        cut["prompt"] = _rest(job, len(desk.prompt) - len(prompt), PROMPT, offset=len(prompt))
    left -= escaped_size(prompt)
    so_far = truncate(desk.so_far[::-1], left // 3)[::-1]
    if len(so_far) < len(desk.so_far):
        cut["soFar"] = _rest(job, len(desk.so_far) - len(so_far), SO_FAR)
    previous = await _previous(locked, job, left // 3, cut)
    left -= escaped_size(so_far) + escaped_size(previous)
    shown = _shown(desk.inputs, job, left)
    if len(shown) < len(desk.inputs):
        cut["inputs"] = _rest(job, len(desk.inputs) - len(shown), offset=len(shown))
    inputs = await _with_contents(locked, job, shown, left)
    return non_empty(
        prompt=prompt,
        inputs=inputs,
        documents=wanted,
        soFar=so_far or None,
        previousVersion=previous or None,
        cut=cut or None,
    )


def _rest(job: Job, left: int, key: str | None = None, *, offset: int | None = None) -> Json:
    """How much is left out, and the call that brings it."""
    args: Body = non_empty(jobId=job.id, documentKey=key, offset=offset)
    return {"left": left, "get": next_call("get_job_input", "the rest", **args)}


async def _previous(locked: LockedRun, job: Job, room: int, cut: Body) -> str:
    """The version of the document that is to be written anew."""
    if job.document is None:
        return ""
    ((row,),) = await locked.send(documents.content_statement(locked.run.id, job.document, 0, room))
    length, content = row[3], truncate(row[4], room)
    if len(content) < length:
        args: Body = {"jobId": job.id, "documentId": job.document, "offset": len(content)}
        get = next_call("get_job_input", "the rest", **args)
        cut["previousVersion"] = {"left": length - len(content), "get": get}
    return content


def required_documents(locked: LockedRun, job: Job) -> list[Json]:
    """The documents to hand in; one for each model where the step makes several."""
    step = locked.compiled_dag.graphs[job.stage].steps[job.step_key]
    made = job.unit.makes if job.unit else ()
    if len(made) == 1:
        return [{"documentKey": key} for key in output_keys(step)]
    return [{"documentKey": key, "modelId": out.model} for key in output_keys(step) for out in made]


def fit_views(views: Sequence[Json], room: int) -> list[Json]:
    """As many of these as there is room for."""
    listed: list[Json] = []
    for view in views:
        room -= len(orjson.dumps(view)) + 1
        if room < 0:
            break
        listed.append(view)
    return listed


def input_header(one: JobInput) -> Body:
    """An input without its text."""
    document = one.document
    return non_empty(
        documentKey=one.document_key,
        stageSlug=one.stage,
        modelId=document.model if document else None,
        lineage=document.lineage if document else None,
        documentId=document.id if document else None,
        createdBy=one.by,
        createdAt=format_time(one.at),
    )


def _frame(one: JobInput, job: Job) -> int:
    """What an input takes without its text."""
    return len(orjson.dumps(_view(one, job, ""))) + 1


def _shown(supplied: Sequence[JobInput], job: Job, room: int) -> list[JobInput]:
    """As many inputs as there is room for the beginnings of."""
    shown: list[JobInput] = []
    for one in supplied:
        room -= _frame(one, job) + min(MIN_SHARE_BYTES, one.length)
        if room < 0:
            break
        shown.append(one)
    return shown


async def _with_contents(
    locked: LockedRun, job: Job, shown: list[JobInput], room: int
) -> list[Json]:
    """The inputs with their texts, cut fairly where together they are too long."""
    left = max(MIN_SHARE_BYTES, room - sum(_frame(one, job) for one in shown))
    share = fair_share([one.length for one in shown], left)
    ids = [one.document.id for one in shown if one.document]
    contents: dict[str, str] = {}
    if ids:
        (rows,) = await locked.send(documents.contents_statement(ids, share))
        contents = {row[0]: row[1] for row in rows}
    filled = [
        replace(one, text=contents[one.document.id] if one.document else one.text[:share])
        for one in shown
    ]
    share = fair_share([escaped_size(one.text) for one in filled], left)
    return [_view(one, job, truncate(one.text, share)) for one in filled]


def _view(one: JobInput, job: Job, text: str) -> Body:
    named = input_header(one)
    if len(text) == one.length:
        return {**named, "content": text}
    which = ("documentId",) if one.document else ("documentKey", "stageSlug")
    args = {name: named[name] for name in which if name in named}
    rest = next_call("get_job_input", "the rest", jobId=job.id, **args, offset=len(text))
    return {**named, "content": text, "cut": {"left": one.length - len(text), "get": rest}}
