"""The jobs of a snapshot: rows that some other system wrote, each put where it belongs.

A job belongs to the stage and step it names. A continuation that names no step is of the step it
continues, and a RENDER job that names no stage is of its parent's.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import NamedTuple

from waybook.dag.documents import RenderJob
from waybook.dag.loose import as_list, as_object, as_text
from waybook.dag.model import JobType
from waybook.dag.overlay import JobEvidence
from waybook.dag.warned import StageWarning, count_noun, quote_name

#: So many continuations of continuations are followed to find a step.
MAX_CONTINUATION_DEPTH = 100


class Row(NamedTuple):
    """A job as its row tells it; what is missing is None."""

    id: str | None
    stage: str | None
    step: str | None
    type: str | None
    status: str | None
    model: str | None
    parent: str | None
    continues: str | None
    document_key: str | None


#: What the fields of a row are called in a snapshot.
FIELDS = (
    "id",
    "stageSlug",
    "stepKey",
    "jobType",
    "status",
    "modelId",
    "parent",
    "continues",
    "documentKey",
)
#: The types of fields that need no second look.
SCALAR_TYPES = {str, NoneType}
KINDS = frozenset(JobType)


@dataclass(frozen=True, slots=True)
class AssignedJobs:
    """The jobs, each where it belongs; a stage with any job at all has its work counted."""

    work: Mapping[str, Counter[JobEvidence]]
    renders: list[RenderJob]


def read_rows(raws: object) -> list[Row]:
    """The rows of the jobs, in the order they came in."""
    rows = []
    for raw in as_list(raws):
        row = Row._make(map(as_object(raw).get, FIELDS))
        rows.append(
            row if SCALAR_TYPES.issuperset(map(type, row)) else Row._make(map(as_text, row))
        )
    return rows


def assign_jobs(rows: list[Row], slugs: frozenset[str]) -> tuple[AssignedJobs, list[StageWarning]]:
    """Put each job into its stage, and say what is strange about it there."""
    by_id = _by_id(rows)
    work: dict[str, Counter[JobEvidence]] = {}
    renders: list[RenderJob] = []
    strange: Counter[StageWarning] = Counter()
    for row in rows:
        named, step = _whereabouts(row, by_id)
        stage = named if named in slugs else None
        if stage is None or row.id is None or row.type not in KINDS:
            strange.update(_strange(row, named, stage))
        if stage is not None and stage not in work:
            work[stage] = Counter()
        if row.type == JobType.RENDER:
            renders += [_render(row, stage, by_id)] if row.id else []
        elif stage is not None:
            work[stage][step, row.type or "", row.status or ""] += 1
    twins = sum(row.id is not None for row in rows) - len(by_id)
    strange.update({StageWarning(None, "with the id of another one"): twins} if twins else {})
    return AssignedJobs(work, renders), [
        StageWarning(stage, f"{count_noun(many, 'job')} {said}")
        for (stage, said), many in strange.items()
    ]


Rows = Mapping[str | None, Row]


def _by_id(rows: Iterable[Row]) -> Rows:
    found: dict[str | None, Row] = {}
    for row in rows:
        if row.id in found:
            # Which of two is meant nobody knows; at least it is always the same one.
            found[row.id] = min(row, found[row.id], key=str)
        elif row.id is not None:
            found[row.id] = row
    return found


def _whereabouts(row: Row, by_id: Rows) -> tuple[str | None, str | None]:
    """The stage and the step a job is of."""
    if row.stage is not None and row.step is not None:
        return row.stage, row.step
    if row.type == JobType.RENDER:
        parent = by_id.get(row.parent, row)
        return row.stage or parent.stage, row.step
    continued = _continued(row, by_id)
    return row.stage or continued.stage, continued.step


def _continued(row: Row, by_id: Rows) -> Row:
    for _ in range(MAX_CONTINUATION_DEPTH):
        if row.step is not None or row.continues not in by_id:
            break
        row = by_id[row.continues]
    return row


def _render(row: Row, stage: str | None, by_id: Rows) -> RenderJob:
    parent = by_id.get(row.parent, row)
    key, model = row.document_key or parent.document_key, row.model or parent.model
    return RenderJob(row.id or "", stage, row.status or "", key, model)


def _strange(row: Row, named: str | None, stage: str | None) -> Iterator[StageWarning]:
    if named is None:
        yield StageWarning(None, "without a stage")
    elif stage is None:
        yield StageWarning(None, f"of a stage that is not there: {quote_name(named)}")
    if row.id is None:
        yield StageWarning(stage, "without an id")
    if row.type is None:
        yield StageWarning(stage, "without a type")
    elif row.type not in KINDS:
        yield StageWarning(stage, f"of the unknown type {quote_name(row.type)}")
