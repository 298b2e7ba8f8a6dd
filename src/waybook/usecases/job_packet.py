"""What somebody who takes a job is handed: the prompt, and the documents to work from.

All together is short enough for any client. What is cut says so, beside the call that brings the
rest.
"""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from waybook.dag.sources import makes
from waybook.record.moment import Json
from waybook.research.cutting import beginning, fair_share, weight
from waybook.run.model import Job
from waybook.store import documents
from waybook.usecases.call import Body
from waybook.usecases.job_inputs import Supplied, desk_of
from waybook.usecases.run_call import HeldRun
from waybook.usecases.views import following, moment, told

#: The most that the names of what is to be made take, in bytes.
MOST_WANTED = 12_000
#: The least there is for inputs beside a long prompt, and for each of them.
LEAST_FOR_INPUTS = 9_000
LEAST_SHARE = 200
#: The names under which get_job_input reads on in what is no document.
PROMPT = "$prompt"
SO_FAR = "$soFar"
DOCUMENTS = "$documents"


async def packet(held: HeldRun, job: Job, room: int) -> Body:
    """The prompt and the inputs of a job, in so many bytes."""
    desk = await desk_of(held, job)
    cut: Body = {}
    every = wanted_documents(held, job)
    wanted = first_of(every, MOST_WANTED)
    if len(wanted) < len(every):
        cut["documents"] = _rest(job, len(every) - len(wanted), DOCUMENTS, offset=len(wanted))
    left = room - len(orjson.dumps(wanted))
    prompt = beginning(desk.prompt, left - LEAST_FOR_INPUTS)
    if len(prompt) < len(desk.prompt):
        cut["prompt"] = _rest(job, len(desk.prompt) - len(prompt), PROMPT, offset=len(prompt))
    left -= weight(prompt)
    so_far = beginning(desk.so_far[::-1], left // 3)[::-1]
    if len(so_far) < len(desk.so_far):
        cut["soFar"] = _rest(job, len(desk.so_far) - len(so_far), SO_FAR)
    previous = await _previous(held, job, left // 3, cut)
    left -= weight(so_far) + weight(previous)
    shown = _shown(desk.inputs, job, left)
    if len(shown) < len(desk.inputs):
        cut["inputs"] = _rest(job, len(desk.inputs) - len(shown), offset=len(shown))
    inputs = await _with_contents(held, job, shown, left)
    return told(
        prompt=prompt,
        inputs=inputs,
        documents=wanted,
        soFar=so_far or None,
        previousVersion=previous or None,
        cut=cut or None,
    )


def _rest(job: Job, left: int, key: str | None = None, *, offset: int | None = None) -> Json:
    """How much is left out, and the call that brings it."""
    args: Body = told(jobId=job.id, documentKey=key, offset=offset)
    return {"left": left, "get": following("get_job_input", "the rest", **args)}


async def _previous(held: HeldRun, job: Job, room: int, cut: Body) -> str:
    """The version of the document that is to be written anew."""
    if job.document is None:
        return ""
    ((row,),) = await held.send(documents.content_statement(held.run.id, job.document, 0, room))
    length, content = row[3], beginning(row[4], room)
    if len(content) < length:
        args: Body = {"jobId": job.id, "documentId": job.document, "offset": len(content)}
        get = following("get_job_input", "the rest", **args)
        cut["previousVersion"] = {"left": length - len(content), "get": get}
    return content


def wanted_documents(held: HeldRun, job: Job) -> list[Json]:
    """The documents to hand in; one for each model where the step makes several."""
    step = held.chart.graphs[job.stage].steps[job.step_key]
    made = job.unit.makes if job.unit else ()
    if len(made) == 1:
        return [{"documentKey": key} for key in makes(step)]
    return [{"documentKey": key, "modelId": out.model} for key in makes(step) for out in made]


def first_of(views: Sequence[Json], room: int) -> list[Json]:
    """As many of these as there is room for."""
    listed: list[Json] = []
    for view in views:
        room -= len(orjson.dumps(view)) + 1
        if room < 0:
            break
        listed.append(view)
    return listed


def name_of(one: Supplied) -> Body:
    """An input without its text."""
    document = one.document
    return told(
        documentKey=one.document_key,
        stageSlug=one.stage,
        modelId=document.model if document else None,
        lineage=document.lineage if document else None,
        documentId=document.id if document else None,
        createdBy=one.by,
        createdAt=moment(one.at),
    )


def _frame(one: Supplied, job: Job) -> int:
    """What an input takes without its text."""
    return len(orjson.dumps(_view(one, job, ""))) + 1


def _shown(supplied: Sequence[Supplied], job: Job, room: int) -> list[Supplied]:
    """As many inputs as there is room for the beginnings of."""
    shown: list[Supplied] = []
    for one in supplied:
        room -= _frame(one, job) + min(LEAST_SHARE, one.length)
        if room < 0:
            break
        shown.append(one)
    return shown


async def _with_contents(held: HeldRun, job: Job, shown: list[Supplied], room: int) -> list[Json]:
    """The inputs with their texts, cut fairly where together they are too long."""
    left = max(LEAST_SHARE, room - sum(_frame(one, job) for one in shown))
    share = fair_share([one.length for one in shown], left)
    ids = [one.document.id for one in shown if one.document]
    contents: dict[str, str] = {}
    if ids:
        (rows,) = await held.send(documents.contents_statement(ids, share))
        contents = {row[0]: row[1] for row in rows}
    filled = [
        replace(one, text=contents[one.document.id] if one.document else one.text[:share])
        for one in shown
    ]
    share = fair_share([weight(one.text) for one in filled], left)
    return [_view(one, job, beginning(one.text, share)) for one in filled]


def _view(one: Supplied, job: Job, text: str) -> Body:
    named = name_of(one)
    if len(text) == one.length:
        return {**named, "content": text}
    which = ("documentId",) if one.document else ("documentKey", "stageSlug")
    args = {name: named[name] for name in which if name in named}
    rest = following("get_job_input", "the rest", jobId=job.id, **args, offset=len(text))
    return {**named, "content": text, "cut": {"left": one.length - len(text), "get": rest}}
