"""Export of a run: all its rows, texts and audit entries as JSON, or a Markdown report."""

from collections.abc import Iterator
from datetime import datetime

from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.export_format import ExportedRows
from waybook.app.queries.runs.run import RunDetail
from waybook.app.request.access import load_run
from waybook.app.request.definition_cache import definition_body
from waybook.app.request.request_context import RequestContext
from waybook.core.hidden_characters import inert
from waybook.dag.diagram.svg import export_drawing
from waybook.dag.statuses import DrawingFormat
from waybook.store.runs import jobs, load


async def read_run_rows(ctx: RequestContext, run_id: str) -> ExportedRows:
    seen = await load_run(ctx, run_id, load.rows_statement(run_id), jobs.texts_statement(run_id))
    stored, texts = seen.results
    rows = load.read_rows(stored)
    for text in texts:
        rows[text.entity][text.id].update(text.values)
    loaded = seen.loaded
    return ExportedRows(
        kind="run",
        id=loaded.run.id,
        name=loaded.run.name,
        now=loaded.now,
        seq=loaded.head.seq,
        rows=rows,
        definition=definition_body(seen.compiled_dag.dag),
    )


def run_report_text(detail: RunDetail) -> str:
    return "".join(f"{line}\n" for line in _report_lines(detail))


def _report_lines(detail: RunDetail) -> Iterator[str]:
    yield export_drawing(DrawingFormat.MARKDOWN, run_drawing(detail)).rstrip("\n")
    done = f"{detail.stages_done} of {detail.stages_total} stages done"
    yield f"\n**{detail.state}**, {done}, as of {_time(detail.now)}."
    if detail.created_at is not None:
        yield f"Started by {_line(detail.created_by)}, {_time(detail.created_at)}."
    run = detail.run
    if run.canceled_at is not None:
        end = f"Canceled by {_line(run.canceled_by)}, {_time(run.canceled_at)}"
        yield f"{end}: {_line(run.cancel_reason)}"
    yield "\n## Input\n"
    yield "\n".join(f"> {inert(line)}".rstrip() for line in str(detail.input_text).splitlines())
    for slug, stage in detail.run.stages.items():
        if stage.feedback:
            by = f"{_line(slug)} by {_line(stage.feedback_by)}"
            yield f"\nFeedback on {by}: {_line(stage.feedback)}"
    if detail.documents:
        yield "\n## Documents\n"
    for item in detail.documents:
        named = _line(f"{item.stage}, {item.document_key}, by {item.model}")
        yield f"- {named} ({item.resource_id})"
    if detail.failures:
        yield "\n## Failed jobs\n"
    for job in detail.failures:
        yield f"- {_line(f'{job.stage}, {job.step_key}, {job.model}: {job.error}')}"


def _line(value: object) -> str:
    return inert(" ".join(str(value).split()))


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
