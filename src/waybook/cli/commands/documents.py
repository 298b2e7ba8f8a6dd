"""`waybook documents`: list the documents of a run, or write them into a folder."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from waybook.app.queries.documents import are_documents_pending
from waybook.app.queries.runs.run import DocumentListItem, RunDetail, RunInclude, read_run_detail
from waybook.app.queries.runs.run_work import read_document
from waybook.app.queries.work_list import resolve_run
from waybook.cli.lazy import load
from waybook.cli.output import refuse_to_overwrite
from waybook.cli.runtime import AppSession, Outcome, app_command
from waybook.cli.terminal.console import figures, plain_table, success, unwrapped
from waybook.core.durations import format_age
from waybook.core.file_names import safe_file_name, unique_name
from waybook.json_values import fields_of


def file_names(listed: Sequence[DocumentListItem], order: Sequence[str]) -> Mapping[str, str]:
    """Return a file path without extension for each document, in one folder per stage."""
    folders = {slug: f"{place}-{safe_file_name(slug)}" for place, slug in enumerate(order, start=1)}
    long = Counter(_short(item) for item in listed)
    taken: set[str] = set()
    names: dict[str, str] = {}
    for item in listed:
        parts = [item.document_key, item.model]
        if long[_short(item)] > 1:
            parts.append(f"of-{item.lineage.rsplit('/', 1)[-1]}")
            parts += [f"by-{item.reviewer}"] if item.reviewer else []
        name = f"{folders[item.stage]}/{'.'.join(map(safe_file_name, parts))}"
        names[item.resource_id] = unique_name(name, taken)
    return names


def _short(item: DocumentListItem) -> tuple[str, str, str]:
    return item.stage, item.document_key, item.model


FILE_EXTENSIONS = {"markdown": "md", "html": "html"}
_WrittenFiles = Mapping[str, list[Path]]


@app_command(
    click.argument("run", required=False),
    click.option("--stage", metavar="STAGE", help="Only those of one stage."),
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Write the documents to this folder.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice([*FILE_EXTENSIONS, "both"]),
        default="both",
        help="What to write (both).",
    ),
    click.option("--force", is_flag=True, help="Overwrite existing files."),
    people=True,
)
async def command(
    here: AppSession,
    run: str | None,
    stage: str | None,
    out: Path | None,
    form: str,
    *,
    force: bool,
) -> Outcome:
    """List or save the documents of a run.

    RUN is an id, an id prefix, or part of the name; optional if only one run is open.
    Documents that are not rendered yet are rendered first.
    """
    found = await resolve_run(here.call, run)
    while await are_documents_pending(here.call) and await load(
        "waybook.background:render_all_orgs"
    )(here.app.services):
        pass
    board = await read_run_detail(here.call, found.id, RunInclude.DOCUMENTS)
    listed = [item for item in board.documents if stage in {None, item.stage}]
    forms = [name for name in FILE_EXTENSIONS if form in {name, "both"}]
    written = await _write(here, board, listed, out, forms, force=force) if out else {}
    shown: RenderableType = Text("No documents yet.")
    if out is not None:
        shown = success(f"{sum(map(len, written.values()))} files written to {out}")
    elif listed:
        shown = _table(listed, board)
    value = [_as_json(item, written) for item in listed]
    return Outcome(value, [shown, Text(_figures(board, stage), style="dim")])


def _table(listed: list[DocumentListItem], board: RunDetail) -> Table:
    heads = map(unwrapped, ("stage", "document", "by", "of"))
    when = unwrapped("when", style="dim")
    table = plain_table(*heads, figures("version"), figures("size"), when)
    for item in listed:
        origin = item.lineage.rsplit("/", 1)[-1]
        origin += f", reviewed by {item.reviewer}" if item.reviewer is not None else ""
        cells = (item.stage, item.document_key, item.model, origin, str(item.version))
        table.add_row(*cells, f"{item.length:,}", format_age(item.created_at, board.now))
    return table


async def _write(
    here: AppSession,
    board: RunDetail,
    listed: list[DocumentListItem],
    out: Path,
    forms: list[str],
    *,
    force: bool,
) -> _WrittenFiles:
    names = file_names(listed, board.compiled_dag.order)
    paths = {
        item.resource_id: [
            out / f"{names[item.resource_id]}.{FILE_EXTENSIONS[form]}" for form in forms
        ]
        for item in listed
    }
    if not force:
        refuse_to_overwrite(path for files in paths.values() for path in files)
    for resource_id, files in paths.items():
        document = await read_document(here.call, resource_id)
        for path, form in zip(files, forms, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            text = document.markdown
            if form == "html":
                build_page = load("waybook.dag.templates.rendering:build_page")
                text = build_page(f"{document.document_key}, {document.model}", document.html)
            path.write_text(text, encoding="utf-8")
    return paths


def _figures(board: RunDetail, stage: str | None) -> str:
    stages = [found for found in board.report["stages"] if stage in {None, found["stageSlug"]}]
    there = sum(found["documentsAvailable"] for found in stages)
    known = [count for found in stages if (count := found["documentsExpected"]) is not None]
    to_come = "" if len(known) == len(stages) else ", counting only started stages"
    return f"{there} of {sum(known)} available{to_come}"


def _as_json(item: DocumentListItem, written: _WrittenFiles) -> dict[str, object]:
    return {
        "stageSlug": item.stage,
        "modelId": item.model,
        **fields_of(item, "resource_id step_key document_key lineage reviewer version"),
        **fields_of(item, "created_at length"),
        **({"files": [str(p) for p in written[item.resource_id]]} if written else {}),
    }
