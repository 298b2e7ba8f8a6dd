"""Renders documents from job results.

Documents that are rendered together are written in one transaction. If the process is killed, they
are rendered again later.
"""

import asyncio
import logging

from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.request_context import RequestContext
from waybook.dag.templates.rendering import render
from waybook.errors import WaybookError
from waybook.json_values import Body, Json, parse_content
from waybook.run.model import CompiledDag
from waybook.run.submit import RenderedPage, store_rendered
from waybook.store.driver.queries import Row, first_column
from waybook.store.runs import jobs, load

log = logging.getLogger(__name__)

_MAX_RUNS = 20
_MAX_PAGES = 20
_MAX_BATCH_CHARACTERS = 1 << 19


async def render_documents(ctx: RequestContext) -> int:
    (rows,) = await ctx.read(jobs.SQL["runs_to_render"](most=_MAX_RUNS))
    return sum([await _render_run_if_possible(ctx, run_id) for run_id in first_column(rows)])


async def _render_run_if_possible(ctx: RequestContext, run_id: str) -> int:
    """Render the documents of a run. A failure does not affect other runs."""
    try:
        waiting = jobs.SQL["to_render"](run_id=run_id, most=_MAX_PAGES)
        async with LockedRun(
            ctx, run_id, waiting, load.SQL["run_brief"](run_id=run_id), is_locked=False
        ) as locked:
            rows, brief = locked.results
            if not rows:
                return 0
            pages = await asyncio.to_thread(_pages, locked, brief[0].input, rows)
            await locked.lock()
            decision = store_rendered(locked.run, locked.dag, pages, locked.context)
            await locked.write(decision, *(page.job for page in pages))
            return decision.reply
    except WaybookError as error:
        log.warning("the documents of run %s will be rendered later: %s", run_id, error)
        return 0


def _pages(seen: LockedRun, run_input: Json, rows: list[Row]) -> list[RenderedPage]:
    """Render documents until their total length exceeds a limit, but at least one document."""
    run: Body = {"name": seen.run.name, "input": run_input}
    pages: list[RenderedPage] = []
    left = _MAX_BATCH_CHARACTERS
    for row in rows:
        pages.append(_page(seen.dag, run, row))
        left -= len(row.content)
        if left < 0:
            break
    return pages


def _page(compiled_dag: CompiledDag, run: Body, row: Row) -> RenderedPage:
    job, key, content = jobs.read_job(row.job), row.document_key, row.content
    stage, step = compiled_dag.stages[job.stage], compiled_dag.graphs[job.stage].steps[job.step_key]
    template = next((out.render for out in step.outputs if out.document_key == key), None)
    values: Body = {
        "run": run,
        "stage": {"slug": stage.slug, "name": stage.name},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
        "document": {
            "key": key,
            "title": key.replace("_", " ").capitalize(),
            "model": row.document_model,
            "lineage": row.lineage,
            "version": row.version,
        },
        "content": parse_content(content),
        "text": content,
    }
    rendered = render(template, values)
    return RenderedPage(job=job, markdown=rendered.markdown, html=rendered.html)
