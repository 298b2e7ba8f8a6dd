"""Documents for people: what there is to read of a run, and one of them whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.errors import NextCall, NotFound
from waybook.run.model import CompiledDag
from waybook.store import documents
from waybook.usecases.call import RequestContext, id_or_nil
from waybook.usecases.exchange import ReadableDocument
from waybook.usecases.run_call import load_run


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentListItem:
    """A document that can be read, without its text."""

    resource_id: str
    stage: str
    step_key: str
    document_key: str
    model: str
    lineage: str
    reviewer: str | None
    version: int
    created_at: datetime
    #: How long its Markdown is, in characters.
    length: int
    #: What it was rendered from.
    document_id: str


async def list_documents(ctx: RequestContext, run_id: str) -> list[DocumentListItem]:
    """The latest version of each document of a run, in the order of its stages and steps.

    Raises:
        NotFound: the run is not there, or not this org's.
    """
    run_id = id_or_nil(run_id)
    seen = await load_run(ctx, run_id, documents.readable_statement(run_id))
    return order_documents(seen.chart, seen.results[0])


def order_documents(
    compiled_dag: CompiledDag, rows: Sequence[Sequence[Any]]
) -> list[DocumentListItem]:
    """The documents that were found, in the order of stages and steps."""
    ranks = compiled_dag.dispatch_ranks
    return sorted(map(_listed, rows), key=lambda one: ranks[one.stage, one.step_key])


async def read_document(ctx: RequestContext, resource_id: str) -> ReadableDocument:
    """One rendered document.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    (rows,) = await ctx.read(documents.rendered_statement(id_or_nil(resource_id)))
    if not rows:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("list_dags", {}, "see the runs there are"),
        )
    run_id, key, model, lineage, version, created_at, markdown, html = rows[0]
    return ReadableDocument(
        resource_id=resource_id,
        run_id=run_id,
        document_key=key,
        model=model,
        lineage=lineage,
        version=version,
        created_at=created_at.astimezone(UTC),
        markdown=markdown,
        html=html,
    )


def _listed(row: Sequence[Any]) -> DocumentListItem:
    resource_id, stage, step_key, key, model, lineage, reviewer, version, at, length, made_of = row
    return DocumentListItem(
        resource_id=resource_id,
        stage=stage,
        step_key=step_key,
        document_key=key,
        model=model,
        lineage=lineage,
        reviewer=reviewer,
        version=version,
        created_at=at.astimezone(UTC),
        length=length,
        document_id=made_of,
    )
