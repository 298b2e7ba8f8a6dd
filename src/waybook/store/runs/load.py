"""Queries that load runs, locked for a decision or as a snapshot, and versions of DAG definitions.

Versions of a definition are kept forever; each run uses one of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from waybook.core.replay import Rows as RunRows
from waybook.core.usage import totals_from_json
from waybook.dag.expansion.lineage import Origins
from waybook.json_values import Json
from waybook.run.model import Run, StageRun, StepRun
from waybook.store.audit import ChainHead
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import AsJson, Statement, load


class RunSummaryRow(NamedTuple):
    """Run in a list."""

    id: str
    name: str
    dag_slug: str
    dag_version: int
    created_at: datetime
    created_by: str
    updated_at: datetime
    completed_at: datetime | None
    #: Database time of the query.
    now: datetime
    #: Started stages in the order they were started: slug, whether it is completed, whether it has
    #: feedback, its closed and its failed steps, its models.
    stages: list[tuple[str, bool, bool, int, int, list[str]]] | None
    #: None where documents are not counted.
    documents_available: int | None
    #: Time since which the run awaits feedback; None where this is not asked for.
    awaiting_since: datetime | None


class NamedDefinitionRow(NamedTuple):
    """Body of a version of a definition."""

    slug: str
    version: int
    body: Json


SQL = load(
    "runs/load",
    definitions_named=NamedDefinitionRow,
    runs_by_activity=RunSummaryRow,
    runs_by_start=RunSummaryRow,
    awaiting_runs=RunSummaryRow,
)
LOAD_RUN = SQL["load_run"]
LOCK_RUN = LOAD_RUN.for_update("r")

#: Number of statements that load a run.
LOAD_STATEMENT_COUNT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """A run, its definition, the database time, and the head of its audit chain."""

    run: Run
    dag_slug: str
    dag_version: int
    now: datetime
    head: ChainHead


def lock_statements(run_id: str) -> tuple[Statement, ...]:
    """Lock the run, then load it."""
    return (LOCK_RUN(run_id=run_id), *_rest(run_id))


def snapshot_statements(run_id: str) -> tuple[Statement, ...]:
    """Load the run without a lock."""
    return (LOAD_RUN(run_id=run_id), *_rest(run_id))


def _rest(run_id: str) -> tuple[Statement, Statement]:
    return SQL["load_stages"](run_id=run_id), SQL["load_steps"](run_id=run_id)


def brief_statement(run_id: str) -> Statement:
    """Select the immutable columns of a run."""
    return SQL["run_brief"](run_id=run_id)


def list_statement(*, by_activity: bool, **values: str | int | None) -> Statement:
    """Select the runs of a list, by newest activity or by start."""
    query = SQL["runs_by_activity"] if by_activity else SQL["runs_by_start"]
    return query(**values)


def awaiting_statement(most: int) -> Statement:
    """Select the runs that wait for a person."""
    return SQL["awaiting_runs"](most=most)


def recent_events_statement(run_id: str, most: int) -> Statement:
    """Select the latest audit entries of a run."""
    return SQL["run_recent_events"](run_id=run_id, most=most)


def rows_statement(run_id: str) -> Statement:
    """Select all rows of a run, to compare with a replay of its audit."""
    return SQL["run_rows"](run_id=run_id)


def read_run(results: Results) -> LoadedRun | None:
    """Return the loaded run, or None if it does not exist."""
    runs, stages, steps = results[:LOAD_STATEMENT_COUNT]
    if not runs:
        return None
    ((run_id, name, dag_slug, dag_version, completed_at, seq, digest, now, *rest),) = runs
    usage, written_at = rest
    head = ChainHead(seq, digest, written_at.astimezone(UTC))
    run = Run(
        id=run_id,
        name=name,
        seq=seq,
        completed_at=in_utc(completed_at),
        stages={row[0]: _stage(row) for row in stages},
        steps={step.id: step for step in map(_step, steps)},
        usage=totals_from_json(usage),
    )
    return LoadedRun(
        run=run,
        dag_slug=dag_slug,
        dag_version=dag_version,
        now=head.after(now.astimezone(UTC)),
        head=head,
    )


def _stage(row: Sequence[Any]) -> StageRun:
    slug, models, prior, started_at, completed_at, feedback, feedback_at, feedback_by = row
    return StageRun(
        slug=slug,
        models=tuple(models),
        prior=_origins(prior),
        started_at=started_at.astimezone(UTC),
        completed_at=in_utc(completed_at),
        feedback=feedback,
        feedback_at=in_utc(feedback_at),
        feedback_by=feedback_by,
    )


def _origins(fields: dict[str, Any]) -> Origins:
    first_author = dict(fields["firstAuthor"])
    return Origins(
        lineages=tuple(first_author), authors=tuple(fields["authors"]), first_author=first_author
    )


def _step(row: Sequence[Any]) -> StepRun:
    stage, key, total, done, failed, opened_at, closed_at = row
    return StepRun(
        stage=stage,
        key=key,
        total=total,
        done=done,
        failed=failed,
        opened_at=opened_at.astimezone(UTC),
        closed_at=in_utc(closed_at),
    )


def in_utc(at: datetime | None) -> datetime | None:
    """Return a time in UTC."""
    return at.astimezone(UTC) if at else None


TIMES = frozenset(
    {
        "completed_at",
        "created_at",
        "started_at",
        "feedback_at",
        "opened_at",
        "closed_at",
        "ready_at",
        "at",
    }
)


def read_rows(records: Iterable[Sequence[Any]]) -> RunRows:
    """Return the selected rows in the form that a replay produces, with times as in the audit."""
    rows: RunRows = {}
    for entity, row_id, values in records:
        rows.setdefault(entity, {})[row_id] = {
            name: _retold(value) if name in TIMES and value else value
            for name, value in values.items()
        }
    return rows


def _retold(value: str) -> str:
    return datetime.fromisoformat(value).astimezone(UTC).isoformat()


def definition_statement(slug: str, version: int | None = None) -> Statement:
    """Select a version of a definition, or its latest."""
    return SQL["definition"](slug=slug, version=version)


def lock_statement(slug: str) -> Statement:
    """Lock a definition against concurrent additions of a version."""
    return SQL["lock_definition"](slug=slug)


def definitions_statement() -> Statement:
    """Select the latest version of every definition."""
    return SQL["definitions"]()


def named_statement(named: Iterable[tuple[str, int]]) -> Statement:
    """Select several versions of definitions."""
    versions = [{"slug": slug, "version": version} for slug, version in named]
    return SQL["definitions_named"](named=AsJson(versions))


def versions_statement(slug: str, most: int) -> Statement:
    """Select the versions of a definition, latest first."""
    return SQL["versions"](slug=slug, most=most)
