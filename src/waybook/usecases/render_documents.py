"""Rendering: what jobs made becomes documents people can read. The server does this by itself.

A run's lock is held while its documents are rendered, and everything is written in one
transaction: whatever is killed on the way leaves the documents waiting for the next one who looks.
"""

import asyncio
from typing import Any

from waybook.dag.rendering import content_of, render
from waybook.record.moment import Json
from waybook.run.model import Chart, Job
from waybook.run.render import Page, keep_rendered
from waybook.store import jobs
from waybook.store.jobs import COLUMNS
from waybook.usecases.call import Call
from waybook.usecases.run_call import HeldRun, locked_run

#: Runs looked at in one go, and documents rendered in one transaction.
MOST_RUNS = 20
MOST_PAGES = 20


async def render_documents(call: Call) -> int:
    """Render what waits in this org; returns how many documents that were."""
    (found,) = await call.read(jobs.runs_to_render_statement(MOST_RUNS))
    return sum([await _render_run(call, row[0]) for row in found])


async def _render_run(call: Call, run_id: str) -> int:
    statement = jobs.to_render_statement(run_id, MOST_PAGES)
    async with locked_run(call, run_id, statement) as held:
        waiting = held.found[0]
        if not waiting:
            return 0
        pages = await asyncio.to_thread(_pages, held, waiting)
        decision = keep_rendered(held.run, held.chart, pages, held.moment)
        await held.write(decision, {}, *(page.job for page in pages), keep=False)
        return decision.reply


def _pages(held: HeldRun, waiting: list[tuple[Any, ...]]) -> list[Page]:
    return [_page(held, jobs.read_job(row), *row[COLUMNS:]) for row in waiting]


def _page(
    held: HeldRun, job: Job, key: str, model: str, lineage: str, version: int, content: str
) -> Page:
    document: dict[str, Json] = {
        "key": key,
        "title": key.replace("_", " ").capitalize(),
        "model": model,
        "lineage": lineage,
        "version": version,
    }
    place = _place(held.chart, held.run.name, job)
    told = {**place, "document": document, "content": content_of(content), "text": content}
    rendered = render(_template(held.chart, job, key), told)
    return Page(job=job, markdown=rendered.markdown, html=rendered.html)


def _place(chart: Chart, run_name: str, job: Job) -> dict[str, Json]:
    stage, step = chart.stages[job.stage], chart.graphs[job.stage].steps[job.step_key]
    return {
        "run": {"name": run_name, "input": None},
        "stage": {"slug": stage.slug, "name": stage.name},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
    }


def _template(chart: Chart, job: Job, key: str) -> str | None:
    outputs = chart.graphs[job.stage].steps[job.step_key].outputs
    return next((output.render for output in outputs if output.document_key == key), None)
