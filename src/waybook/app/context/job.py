"""Builds the context of a job: its prompt, its inputs, and the parts submitted so far.

Each text that was cut comes with the tool call that returns the rest.
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import orjson

from waybook.app.request.access import require_job
from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.reply import MAX_COMPACT_REPLY_BYTES, fit_views, next_call
from waybook.app.request.request_context import RequestContext
from waybook.core.ids import id_or_nil
from waybook.dag.expansion.inputs import (
    FEEDBACK,
    Document,
    DocumentSlot,
    ResolvedInput,
    index_documents,
    input_slots,
    listed_inputs,
    resolve_all,
    unresolved_slots,
)
from waybook.dag.expansion.units import MAX_ITEMS, Unit, input_field, read_items
from waybook.dag.graph import output_keys
from waybook.dag.model import Input
from waybook.dag.templates.template import TemplateKind, is_constant, render_template
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.packet import escaped_size, fair_share, truncate
from waybook.run.model import Job
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement, first_column
from waybook.store.runs import inputs, jobs, load
from waybook.store.runs.inputs import DocumentInfo
from waybook.store.runs.load import RunBriefRow


class JobInput(NamedTuple):
    document_key: str
    stage: str | None
    #: The loaded text, which may be only a beginning. `length` is the length of the whole text.
    text: str
    length: int
    document: Document | None = None
    by: str | None = None
    at: datetime | None = None
    #: If the input is an item of a list: the number of the item, and the length of the list.
    item: int | None = None
    items: int | None = None

    @property
    def is_loaded(self) -> bool:
        return len(self.text) >= self.length

    def header(self) -> Body:
        document = self.document
        return non_empty(
            documentKey=self.document_key,
            stageSlug=self.stage,
            modelId=document.model if document else None,
            lineage=document.lineage if document else None,
            documentId=document.id if document else None,
            item=self.item,
            itemCount=self.items,
            createdBy=self.by,
            createdAt=format_time(self.at),
        )


def document_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


_SlotsOfJob: TypeAlias = Callable[[Job], list[DocumentSlot]]

#: With the inputs of a job, the inputs of up to this many other free jobs are read and cached.
_READ_AHEAD_JOBS = 8
_DEFAULT_PROMPT = """\
{{ step.name }}, in the stage {{ stage.name }} of the run "{{ run.name }}".
Use the inputs that come with this prompt, and write:
{% for document in documents %}- {{ document.documentKey }}
{% endfor %}{% if item %}
This job is about item {{ item.number }} of {{ item.count }}, which is the first input.
{% endif %}{% if feedback %}
A person's feedback on the previous stage: {{ feedback }}
{% endif %}"""
#: Bytes that a context always leaves for the inputs of a job, even if the prompt is long.
_MIN_INPUT_BYTES = 9_000
_MAX_DOCUMENT_LIST_BYTES = 12_000
#: Maximum number of characters to read of a document that lists items for jobs. Every document is
#: shorter, so the whole document is read.
_MAX_LIST_CHARACTERS = 1 << 24
_MIN_SHARE_BYTES = 200
PROMPT = "$prompt"
SO_FAR = "$soFar"
DOCUMENTS = "$documents"


async def load_job_context(locked: LockedRun, job: Job) -> "JobContext":
    context = JobContext(locked, job)
    await context.load()
    return context


async def read_job_context(ctx: RequestContext, run_id: str, job_id: str) -> "JobContext":
    statement = jobs.SQL["load_job"](job_id=id_or_nil(job_id))
    async with LockedRun(ctx, run_id, statement, is_locked=False) as locked:
        return await load_job_context(locked, require_job(locked.results[0]))


class JobContext:
    """The prompt and the inputs of a job. The texts of long documents are not loaded yet."""

    prompt: str
    inputs: list[JobInput]
    so_far = ""

    def __init__(self, locked: LockedRun, job: Job) -> None:
        self._locked, self._job, self._dag = locked, job, locked.dag
        self._step = self._dag.graphs[job.stage].steps[job.step_key]

    async def load(self) -> None:
        locked, job = self._locked, self._job
        if locked.cached_run is not None and locked.brief is not None:
            documents, brief = await self._read_documents(self._slots), locked.brief
        else:
            wanted = self._statements(self._slots(job), job.started_at)
            parts = [jobs.SQL["parts"](job_id=job.id)] if job.continues else []
            brief_statement = load.SQL["run_brief"](run_id=locked.run.id)
            *rest, brief_rows = await locked.send(*wanted, *parts, brief_statement)
            documents, brief = _by_id(rest[: len(wanted)]), brief_rows[0]
            self.so_far = "".join(chain.from_iterable(map(first_column, rest[len(wanted) :])))
        self.inputs = await self._supplied(job.unit, documents, brief) if job.unit else []
        prompt = self._step.prompt or _DEFAULT_PROMPT
        values = {} if is_constant(prompt) else self._prompt_values(brief.input)
        self.prompt = render_template(prompt, TemplateKind.PROMPT, values)

    def _slots(self, job: Job) -> list[DocumentSlot]:
        if job.unit is None:
            return []
        graph = self._dag.graphs[job.stage]
        return input_slots(job.unit, job.stage, graph, self._dag.produced_documents)

    def _statements(self, slots: list[DocumentSlot], as_of: datetime | None) -> list[Statement]:
        run_id = self._locked.run.id
        return inputs.documents_statements(run_id, slots, MAX_COMPACT_REPLY_BYTES, as_of)

    async def _read_documents(self, slots_of: _SlotsOfJob) -> dict[str, DocumentInfo]:
        """Return the input documents of the job, by id.

        A claimed job gets the versions that were the latest when the job was claimed. If the cached
        run lacks some of the documents, the inputs of the next free jobs are read and cached too.
        """
        slots, cached = slots_of(self._job), self._locked.cached_run
        if cached is None:
            statements = self._statements(slots, self._job.started_at)
            return _by_id(await self._locked.send(*statements))
        known = [cached.documents.get(slot) for slot in slots]
        if None not in known:
            return {info.document.id: info for infos in known if infos for info in infos}
        near = (self._job, *cached.jobs_after(self._job, _READ_AHEAD_JOBS))
        wanted = dict.fromkeys(slot for job in near if job.unit for slot in slots_of(job))
        unknown = [slot for slot in wanted if cached.documents.get(slot) is None]
        writes = cached.documents.writes_of(unknown)
        read = _by_id(await self._locked.send(*self._statements(unknown, None)))
        cached.documents.put(unknown, writes, read.values())
        return {
            info.document.id: info
            for slot, infos in zip(slots, known, strict=True)
            for info in (inputs.documents_in(slot, read.values()) if infos is None else infos)
        }

    def _resolve(self, unit: Unit, documents: dict[str, DocumentInfo]) -> list[ResolvedInput]:
        stage, shelf = self._job.stage, index_documents(i.document for i in documents.values())
        return resolve_all(
            unit, stage, self._dag.graphs[stage], shelf, self._dag.produced_documents
        )

    async def _supplied(
        self, unit: Unit, documents: dict[str, DocumentInfo], brief: RunBriefRow
    ) -> list[JobInput]:
        resolved = self._resolve(unit, documents)
        unresolved = unresolved_slots(resolved, self._job.stage)
        searched = self._slots(self._job) if unresolved else []
        if missing := [slot for slot in unresolved if slot not in searched]:
            more = await self._read_documents(lambda _: missing)
            documents = {key: info for key, info in documents.items() if key not in more} | more
            resolved = self._resolve(unit, documents)
        supplied: list[JobInput] = []
        for item in listed_inputs(resolved):
            if item.item is not None:
                supplied.append(await self._item(item.item, brief))
            if item.external and (outside := self._from_outside(item.input, brief)).text:
                supplied.append(outside)
            for document, length, by, at, text in (documents[made.id] for made in item.documents):
                key, stage = document.document_key, document.stage
                supplied.append(JobInput(key, stage, text or "", length, document, by, at))
        return supplied

    async def _item(self, number: int, brief: RunBriefRow) -> JobInput:
        """Return item `number` of a list as an input. The step of the job has one job per item."""
        item_list = self._dag.item_lists[self._job.stage, self._job.step_key]
        known = next(known for known in self._locked.run.lists if known.name == item_list.name)
        key, by, at = item_list.document_key, None, None
        if known.document is None:
            source, by, at = input_field(brief.input, key), brief.created_by, brief.created_at
        else:
            statement = jobs.contents_statement([known.document], _MAX_LIST_CHARACTERS)
            source = (await self._locked.send(statement))[0][0].content
        text = document_text(read_items(source, item_list)[number - 1])
        return JobInput(
            key, item_list.stage, text, len(text), None, by, at, number, items=known.length
        )

    def _from_outside(self, wanted: Input, brief: RunBriefRow) -> JobInput:
        """Return an input that no step produces: feedback on a stage, or the input of the run."""
        by: str | None = brief.created_by
        at: datetime | None = brief.created_at
        if wanted.document_key == FEEDBACK:
            stage = self._locked.run.stages.get(wanted.stage or "")
            text = (stage.feedback if stage else None) or ""
            by, at = (stage.feedback_by, stage.feedback_at) if stage else (None, None)
        else:
            text = document_text(input_field(brief.input, wanted.document_key))
        return JobInput(wanted.document_key, wanted.stage, text, len(text), None, by, at)

    def _prompt_values(self, run_input: Json) -> Mapping[str, Any]:
        """Return the values of the variables that a prompt template can use."""
        run, job, step = self._locked.run, self._job, self._step
        stage = self._dag.stages[job.stage]
        before = (run.stages.get(slug) for slug in self._dag.dag.before(job.stage))
        feedback = [stage_run.feedback for stage_run in before if stage_run and stage_run.feedback]
        items = (
            {"number": each.item, "count": each.items, "text": each.text}
            for each in self.inputs
            if each.item is not None
        )
        return {
            "run": {"name": run.name, "input": run_input},
            "stage": {"slug": stage.slug, "name": stage.name},
            "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
            "model": job.model,
            "lineage": job.unit.lineage if job.unit else None,
            "reviewer": job.unit.reviewer if job.unit else None,
            "item": next(items, None),
            "models": [*run.stages[job.stage].models],
            "documents": [{"documentKey": key} for key in output_keys(step)],
            "inputs": [
                {
                    "documentKey": each.document_key,
                    "stage": each.stage,
                    "model": each.document.model if each.document else None,
                    "lineage": each.document.lineage if each.document else None,
                    "title": each.document_key.replace("_", " "),
                }
                for each in self.inputs
            ],
            "feedback": "\n\n".join(feedback) or None,
        }

    def required_documents(self) -> list[Json]:
        keys, made = output_keys(self._step), self._job.unit.makes if self._job.unit else ()
        if len(made) != 1:
            return [{"documentKey": key, "modelId": out.model} for key in keys for out in made]
        documents: list[Json] = []
        for key in keys:
            document: Body = {"documentKey": key}
            if item_list := self._dag.produced_lists.get((self._job.stage, key)):
                most = item_list.max_items or MAX_ITEMS
                document["format"] = f"JSON array with at most {most:,} items, one per job"
            documents.append(document)
        return documents

    async def packet(self, room: int) -> Body:
        """Return the prompt and the inputs of the job, cut so that they fit into `room` bytes."""
        every = self.required_documents()
        complete = None if self._job.document else self._complete_packet(every, room)
        if complete is not None:
            return complete
        cut: Body = {}
        wanted = fit_views(every, _MAX_DOCUMENT_LIST_BYTES)
        if count := len(every) - len(wanted):
            cut["documents"] = self._rest(count, documentKey=DOCUMENTS, offset=len(wanted))
        left = room - len(orjson.dumps(wanted))
        prompt = truncate(self.prompt, left - _MIN_INPUT_BYTES)
        if count := len(self.prompt) - len(prompt):
            cut["prompt"] = self._rest(count, documentKey=PROMPT, offset=len(prompt))
        left -= escaped_size(prompt)
        so_far = truncate(self.so_far[::-1], left // 3)[::-1]
        if count := len(self.so_far) - len(so_far):
            cut["soFar"] = self._rest(count, documentKey=SO_FAR)
        previous = await self._previous_version(left // 3, cut)
        left -= escaped_size(so_far) + escaped_size(previous)
        shown = await self._cut_inputs(left)
        if count := len(self.inputs) - len(shown):
            cut["inputs"] = self._rest(count, offset=len(shown))
        return non_empty(
            prompt=prompt,
            inputs=shown,
            documents=wanted,
            soFar=so_far or None,
            previousVersion=previous or None,
            cut=cut or None,
        )

    def _complete_packet(self, documents: list[Json], room: int) -> Body | None:
        """Return the context with uncut texts, or None if a text is not loaded or may not fit."""
        if not all(job_input.is_loaded for job_input in self.inputs):
            return None
        contents: list[Json] = [{**each.header(), "content": each.text} for each in self.inputs]
        so_far = self.so_far or None
        packet = non_empty(prompt=self.prompt, inputs=contents, documents=documents, soFar=so_far)
        return packet if len(orjson.dumps(packet)) <= _MIN_INPUT_BYTES <= room // 4 else None

    def _rest(self, left: int, **args: Json) -> Json:
        call = next_call("get_job_input", "Read the rest.", jobId=self._job.id, **args)
        return {"left": left, "get": call}

    async def _previous_version(self, room: int, cut: Body) -> str:
        document_id = self._job.document
        if document_id is None:
            return ""
        statement = jobs.SQL["content"](
            run_id=self._locked.run.id, document_id=document_id, start=0, most=room
        )
        row = (await self._locked.send(statement))[0][0]
        content = truncate(row.content, room)
        if left := row.length - len(content):
            rest = self._rest(left, documentId=document_id, offset=len(content))
            cut["previousVersion"] = rest
        return content

    async def _cut_inputs(self, room: int) -> list[Json]:
        """Return as many inputs as fit into `room` bytes. Long contents are cut."""
        shown: list[JobInput] = []
        left = room
        for job_input in self.inputs:
            frame = len(orjson.dumps(self._cut_input(job_input, ""))) + 1
            room -= frame + min(_MIN_SHARE_BYTES, job_input.length)
            if room < 0:
                break
            shown.append(job_input)
            left -= frame
        left = max(_MIN_SHARE_BYTES, left)
        share = fair_share([job_input.length for job_input in shown], left)
        ids = [each.document.id for each in shown if each.document and not each.is_loaded]
        contents: dict[str, str] = {}
        if ids:
            (rows,) = await self._locked.send(jobs.contents_statement(ids, share))
            contents = dict(rows)
        texts = [
            contents.get(each.document.id if each.document else "", each.text[:share])
            for each in shown
        ]
        share = fair_share([escaped_size(text) for text in texts], left)
        return [
            self._cut_input(job_input, truncate(text, share))
            for job_input, text in zip(shown, texts, strict=True)
        ]

    def _cut_input(self, job_input: JobInput, text: str) -> Body:
        named = job_input.header()
        if len(text) == job_input.length:
            return {**named, "content": text}
        which = ("documentId",) if job_input.document else ("documentKey", "stageSlug")
        args = {name: named[name] for name in which if name in named}
        rest = self._rest(job_input.length - len(text), **args, offset=len(text))
        return {**named, "content": text, "cut": rest}


def _by_id(results: Results) -> dict[str, DocumentInfo]:
    return inputs.read_documents(chain.from_iterable(results))
