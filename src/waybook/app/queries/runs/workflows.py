"""Queries for the list of workflows, and for one workflow in any version."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from waybook.app.request.definition_cache import (
    BUILTIN_AUTHOR,
    DefinitionCache,
    builtin_dags,
    compile_stored,
)
from waybook.app.request.request_context import RequestContext
from waybook.dag.expansion.inputs import FEEDBACK, documents_expected
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.json_values import Body, Json
from waybook.research.packet import truncate
from waybook.run.model import CompiledDag
from waybook.store.driver.queries import Row
from waybook.store.runs import load
from waybook.store.runs.load import DefinitionRow

MAX_VERSIONS = 100
_MAX_RUNS = 30
MODEL_COUNTS = (1, 2, 3, 4)
_MAX_DESCRIPTION_BYTES = 600


class Workflow(NamedTuple):
    compiled_dag: CompiledDag
    versions: Sequence[Row]
    built_in: bool
    #: The newest runs, last started first.
    runs: Sequence[Row] = ()


async def list_workflows(ctx: RequestContext) -> list[Workflow]:
    (rows,) = await ctx.read(load.SQL["definitions"]())
    return current_workflows(ctx, rows)


def current_workflows(ctx: RequestContext, rows: Sequence[DefinitionRow]) -> list[Workflow]:
    """Return the built-in workflows and the workflows stored in `rows`, sorted by slug."""
    stored = {row.slug: row for row in rows}
    slugs = sorted({*stored, *builtin_dags()})
    return [_workflow(ctx, slug, [stored[slug]] if slug in stored else []) for slug in slugs]


async def read_workflow(ctx: RequestContext, slug: str, version: int | None = None) -> Workflow:
    rows, versions, runs = await ctx.read(
        load.SQL["definition"](slug=slug, version=version),
        load.SQL["versions"](slug=slug, most=MAX_VERSIONS),
        load.SQL["workflow_runs"](slug=slug, most=_MAX_RUNS),
    )
    if version is not None and rows:
        row: DefinitionRow = rows[0]
        return Workflow(
            compiled_dag=compile_stored(row.body, row.version),
            versions=versions,
            built_in=row.created_by == BUILTIN_AUTHOR,
            runs=runs,
        )
    return _workflow(ctx, slug, rows, versions)._replace(runs=runs)


def documents_by_models(compiled_dag: CompiledDag) -> Mapping[str, Sequence[int | None]]:
    structure = valid_structure(compiled_dag.dag, compiled_dag.graphs)
    stage_counts = [
        structure_counts(structure, {compiled_dag.order[0]: tuple(f"m{n}" for n in range(count))})
        for count in MODEL_COUNTS
    ]
    return {
        slug: [
            documents_expected(compiled_dag.stages[slug], counts[slug]) if slug in counts else None
            for counts in stage_counts
        ]
        for slug in compiled_dag.order
    }


def _workflow(
    ctx: RequestContext,
    slug: str,
    rows: Sequence[DefinitionRow],
    versions: Sequence[Row] = (),
) -> Workflow:
    current = ctx.services.shared(DefinitionCache).current(ctx.caller.org_id, slug, rows)
    ours = not rows or rows[0].created_by == BUILTIN_AUTHOR
    return Workflow(compiled_dag=current, versions=versions or rows, built_in=ours)


def input_keys(compiled_dag: CompiledDag) -> tuple[str, ...]:
    """Return the keys of the documents that are taken from the input of a run."""
    keys: dict[str, None] = {}
    for slug in compiled_dag.order:
        for step in compiled_dag.stages[slug].recipe.steps:
            for wanted in step.inputs or ():
                place = (wanted.stage or slug, wanted.document_key)
                if place not in compiled_dag.produced_documents and place[1] != FEEDBACK:
                    keys[place[1]] = None
    return tuple(keys)


def workflow_view(compiled_dag: CompiledDag) -> Body:
    dag = compiled_dag.dag
    stages: list[Json] = [
        {
            "stageSlug": slug,
            "name": compiled_dag.stages[slug].name,
            "steps": len(compiled_dag.graphs[slug].order),
        }
        for slug in compiled_dag.order
    ]
    return {
        "dagSlug": dag.slug,
        "name": dag.name,
        "version": compiled_dag.version,
        "description": truncate(dag.description, _MAX_DESCRIPTION_BYTES),
        "stages": stages,
    }
