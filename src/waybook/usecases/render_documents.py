"""Rendering: what jobs made becomes documents people can read. The server does this by itself.

Whoever renders holds nothing but the RENDER jobs at hand, and others pass these over; the run is
locked only to write. Everything is written in one transaction: whatever is killed on the way
leaves the documents waiting for the next one who looks.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from waybook.dag.rendering import content_of, render
from waybook.errors import WaybookError
from waybook.record.moment import Json
from waybook.run.model import Chart, Job
from waybook.run.render import Page, keep_rendered
from waybook.store import jobs, runs
from waybook.store.jobs import COLUMNS
from waybook.usecases.call import Call
from waybook.usecases.run_call import HeldRun, opened_run

log = logging.getLogger(__name__)

#: Runs looked at in one go, documents rendered in one transaction, and characters in them.
MOST_RUNS = 20
MOST_PAGES = 20
MOST_TEXT = 1 << 19


async def render_documents(call: Call) -> int:
    """Render what waits in this org; returns how many documents that were."""
    (found,) = await call.read(jobs.runs_to_render_statement(MOST_RUNS))
    return sum([await _render_run_if_possible(call, row[0]) for row in found])


async def _render_run_if_possible(call: Call, run_id: str) -> int:
    """One run that cannot be rendered now does not hold up the others."""
    try:
        return await _render_run(call, run_id)
    except WaybookError as fault:
        log.warning("the documents of run %s will be rendered later: %s", run_id, fault)
        return 0


async def _render_run(call: Call, run_id: str) -> int:
    waiting = jobs.to_render_statement(run_id, MOST_PAGES)
    async with opened_run(call, run_id, waiting, runs.brief_statement(run_id)) as seen:
        found, brief = seen.found
        if not found:
            return 0
        pages = await asyncio.to_thread(_pages, seen, brief[0][0], found)
        held = await seen.locked()
        decision = keep_rendered(held.run, held.chart, pages, held.moment)
        await held.write(decision, {}, *(page.job for page in pages), keep=False)
        return decision.reply


def _pages(seen: HeldRun, run_input: Json, found: list[tuple[Any, ...]]) -> list[Page]:
    """The first of these, rendered: at least one, and not more than a while's work."""
    run: dict[str, Json] = {"name": seen.run.name, "input": run_input}
    pages: list[Page] = []
    left = MOST_TEXT
    for row in found:
        *about, content = row[COLUMNS:]
        pages.append(_page(seen.chart, run, jobs.read_job(row), about, content))
        left -= len(content)
        if left < 0:
            break
    return pages


def _page(chart: Chart, run: dict[str, Json], job: Job, about: Sequence[Any], content: str) -> Page:
    key, model, lineage, version = about
    stage, step = chart.stages[job.stage], chart.graphs[job.stage].steps[job.step_key]
    template = next((out.render for out in step.outputs if out.document_key == key), None)
    named: Json = {
        "key": key,
        "title": key.replace("_", " ").capitalize(),
        "model": model,
        "lineage": lineage,
        "version": version,
    }
    place: dict[str, Json] = {
        "run": run,
        "stage": {"slug": stage.slug, "name": stage.name},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
        "document": named,
    }
    rendered = render(template, {**place, "content": content_of(content), "text": content})
    return Page(job=job, markdown=rendered.markdown, html=rendered.html)
