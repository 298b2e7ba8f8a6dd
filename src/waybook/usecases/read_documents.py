"""Documents for people: what there is to read of a run, and one of them whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.errors import NextCall, NotFound
from waybook.run.model import Chart
from waybook.store import documents
from waybook.usecases.call import Call, known
from waybook.usecases.exchange import Readable
from waybook.usecases.run_call import look_at_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
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


async def list_documents(call: Call, run_id: str) -> list[Listed]:
    """The latest version of each document of a run, in the order of its stages and steps.

    Raises:
        NotFound: the run is not there, or not this org's.
    """
    run_id = known(run_id)
    seen = await look_at_run(call, run_id, documents.readable_statement(run_id))
    return in_order(seen.chart, seen.found[0])


def in_order(chart: Chart, rows: Sequence[Sequence[Any]]) -> list[Listed]:
    """The documents that were found, in the order of stages and steps."""
    ranks = chart.ranks
    return sorted(map(_listed, rows), key=lambda one: ranks[one.stage, one.step_key])


async def read_document(call: Call, resource_id: str) -> Readable:
    """One rendered document.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    (rows,) = await call.read(documents.rendered_statement(known(resource_id)))
    if not rows:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("list_dags", {}, "see the runs there are"),
        )
    run_id, key, model, lineage, version, created_at, markdown, html = rows[0]
    return Readable(
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


def _listed(row: Sequence[Any]) -> Listed:
    resource_id, stage, step_key, key, model, lineage, reviewer, version, at, length, made_of = row
    return Listed(
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
