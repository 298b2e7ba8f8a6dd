"""Export of a run: all its rows, texts and audit entries as JSON, or a Markdown report."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime

from waybook.app.queries.diagrams import run_drawing
from waybook.app.queries.export_format import (
    RUN_FORMAT,
    RUN_KEYS,
    VERSION,
    export_parts,
    exported_row,
    exported_rows,
)
from waybook.app.queries.runs.run import RunDetail
from waybook.app.request.access import load_run
from waybook.app.request.definition_cache import definition_body
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Rows
from waybook.core.hidden_characters import inert
from waybook.dag.diagram.svg import export_drawing
from waybook.dag.statuses import DrawingFormat
from waybook.json_values import Body, rfc3339
from waybook.run.model import CompiledDag
from waybook.store.runs import jobs, load


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    run_id: str
    name: str
    now: datetime
    seq: int
    rows: Rows
    compiled_dag: CompiledDag


async def read_run_rows(ctx: RequestContext, run_id: str) -> RunRows:
    seen = await load_run(ctx, run_id, load.rows_statement(run_id), jobs.texts_statement(run_id))
    stored, texts = seen.results
    rows = load.read_rows(stored)
    for text in texts:
        rows[text.entity][text.id].update(text.values)
    loaded = seen.loaded
    return RunRows(
        run_id=loaded.run.id,
        name=loaded.run.name,
        now=loaded.now,
        seq=loaded.head.seq,
        rows=rows,
        compiled_dag=seen.compiled_dag,
    )


def run_export_body(run_rows: RunRows) -> Body:
    """Return the JSON export of a run, without its audit entries."""
    (run,) = run_rows.rows["run"].values()
    return {
        "format": RUN_FORMAT,
        "version": VERSION,
        "exportedAt": rfc3339(run_rows.now),
        "run": exported_row(run_rows.run_id, run),
        "definition": definition_body(run_rows.compiled_dag.dag),
        **exported_rows(run_rows.rows, RUN_KEYS),
    }


def run_export_json(ctx: RequestContext, run_rows: RunRows) -> AsyncIterator[bytes]:
    return export_parts(ctx, run_export_body(run_rows), run_rows.run_id, until=run_rows.seq)


def run_report_text(detail: RunDetail) -> str:
    return "\n".join([*_head(detail), *_documents(detail), *_failures(detail)]) + "\n"


def _head(detail: RunDetail) -> Iterator[str]:
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


def _documents(detail: RunDetail) -> Iterator[str]:
    if detail.documents:
        yield "\n## Documents\n"
    for item in detail.documents:
        named = _line(f"{item.stage}, {item.document_key}, by {item.model}")
        yield f"- {named} ({item.resource_id})"


def _failures(detail: RunDetail) -> Iterator[str]:
    if detail.failures:
        yield "\n## Failed jobs\n"
    for job in detail.failures:
        yield f"- {_line(f'{job.stage}, {job.step_key}, {job.model}: {job.error}')}"


def _line(value: object) -> str:
    return inert(" ".join(str(value).split()))


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
