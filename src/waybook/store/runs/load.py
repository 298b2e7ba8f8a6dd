"""Queries that load runs, with a lock or as a snapshot, and versions of workflow definitions."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, cast

from waybook.core.usage import totals_from_json
from waybook.dag.expansion.units import Origins
from waybook.json_values import Json
from waybook.run.model import Run, RunList, StageRun, StepRun
from waybook.store.audit import ChainHead
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import AsJson, Statement, load

#: A list that splits the work of a step: the step has one job for each item. The fields are the
#: name and length of the list, the id of the document that contains the list, and the newer version
#: of the list, if any.
RunListRow: TypeAlias = tuple[str, int, str | None, tuple[int, str] | None]


class RunBriefRow(NamedTuple):
    input: Json
    created_at: datetime
    created_by: str


class DefinitionRow(NamedTuple):
    version: int
    name: str
    body: Json
    body_hash: str
    created_at: datetime
    created_by: str
    slug: str


class ReadableRow(NamedTuple):
    resource_id: str
    stage: str
    step_key: str
    document_key: str
    model: str
    lineage: str
    reviewer: str | None
    version: int
    created_at: datetime
    length: int
    #: Id of the document from which this document was rendered.
    document_id: str
    job_id: str


SQL = load(
    "runs/load",
    load_stages=StageRun,
    load_steps=StepRun,
    run_brief=RunBriefRow,
    definition=DefinitionRow,
    definitions=DefinitionRow,
    definitions_named=DefinitionRow,
)
MAX_NEWEST_RUNS = 1_000
_LOAD_RUN = SQL["load_run"]
_LOCK_RUN = _LOAD_RUN.for_update("r")

LOAD_STATEMENT_COUNT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    run: Run
    dag_slug: str
    dag_version: int
    now: datetime
    head: ChainHead


def load_statements(run_id: str, *, lock: bool = False) -> tuple[Statement, ...]:
    return (
        (_LOCK_RUN if lock else _LOAD_RUN)(run_id=run_id),
        SQL["load_stages"](run_id=run_id),
        SQL["load_steps"](run_id=run_id),
    )


def list_statement(*, by_activity: bool, **values: str | int | None) -> Statement:
    query = SQL["runs_by_activity"] if by_activity else SQL["runs_by_start"]
    return query(**values)


def text_statement(**values: str | int | bool | None) -> Statement:
    return SQL["runs_with_text"](**values)


def read_run(results: Results) -> LoadedRun | None:
    runs, stages, steps = results[:LOAD_STATEMENT_COUNT]
    if not runs:
        return None
    row = runs[0]
    head = ChainHead(row.audit_seq, row.audit_hash, row.updated_at)
    run = Run(
        id=row.id,
        name=row.name,
        seq=row.audit_seq,
        completed_at=row.completed_at,
        stages={stage.slug: stage for stage in map(_stage, stages)},
        steps={step.id: step for step in steps},
        usage=totals_from_json(row.usage),
        canceled_at=row.canceled_at,
        canceled_by=row.canceled_by,
        cancel_reason=row.cancel_reason,
        copied_from=row.copied_from,
        copied_seq=row.copied_seq,
        lists=read_lists(row.lists),
    )
    return LoadedRun(
        run=run,
        dag_slug=row.dag_slug,
        dag_version=row.dag_version,
        now=head.after(row.now),
        head=head,
    )


def read_lists(rows: Iterable[RunListRow] | None) -> tuple[RunList, ...]:
    return tuple(
        RunList(name, length, document, (newer[0], newer[1]) if newer else None)
        for name, length, document, newer in rows or ()
    )


def _stage(row: StageRun) -> StageRun:
    """Convert the JSON columns of a stage to the types of the class `StageRun`."""
    prior = cast("dict[str, Any]", row.prior)
    return row._replace(
        models=tuple(row.models),
        prior=Origins(first_author=dict(prior["firstAuthor"]), authors=tuple(prior["authors"])),
    )


def named_statement(named: Iterable[tuple[str, int]]) -> Statement:
    versions = [{"slug": slug, "version": version} for slug, version in named]
    return SQL["definitions_named"](named=AsJson(versions))
