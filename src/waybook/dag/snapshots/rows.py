"""Jobs and stage runs of an exported snapshot, parsed from rows of another system.

A job belongs to the stage and step named in its row. If a continuation has no step, it belongs to
the step of the job that it continues. If a RENDER job has no stage, it belongs to the stage of its
parent job. Values of an unexpected type are treated as missing. Stage runs contain the initiated
stages, their models, and their closed steps.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import NamedTuple

from waybook.dag.diagnostics import StageWarning, count_noun, quote_name
from waybook.dag.model import JobType
from waybook.dag.progress.documents import RenderJob
from waybook.dag.progress.overlay import JobEvidence
from waybook.dag.progress.structure import Structure

Raw = Mapping[str, object]

EMPTY_OBJECT: Raw = {}


def as_object(value: object) -> Raw:
    """Return the value if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else EMPTY_OBJECT


def as_list(value: object) -> Sequence[object]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str | None:
    """Return a text unchanged, an integer (such as a numeric id) as text, else None.

    >>> as_text("j1"), as_text(17), as_text(""), as_text(True), as_text(["j1"])
    ('j1', '17', None, None, None)
    """
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int and abs(value) < MAX_ID else None


#: Upper bound of integers that are accepted as ids; larger integers are implausible and slow to
#: format.
MAX_ID = 1 << 64

#: Maximum number of continuations that are followed from a job back to the job that has a step.
MAX_CONTINUATION_DEPTH = 100


class Row(NamedTuple):
    """Row of a job in a snapshot, with None for missing values."""

    id: str | None
    stage: str | None
    step: str | None
    type: str | None
    status: str | None
    model: str | None
    parent: str | None
    continues: str | None
    document_key: str | None


#: Names that the fields of a row have in a snapshot.
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
#: Types of field values that are used without conversion.
SCALAR_TYPES = {str, NoneType}
KINDS = frozenset(JobType)


@dataclass(frozen=True, slots=True)
class AssignedJobs:
    """Jobs of a snapshot by stage; `work` has an entry for each stage that has jobs."""

    work: Mapping[str, Counter[JobEvidence]]
    renders: list[RenderJob]


def read_rows(raws: object) -> list[Row]:
    """Return the job rows of a snapshot, in their original order."""
    rows = []
    for raw in as_list(raws):
        row = Row._make(map(as_object(raw).get, FIELDS))
        rows.append(
            row if SCALAR_TYPES.issuperset(map(type, row)) else Row._make(map(as_text, row))
        )
    return rows


def assign_jobs(rows: list[Row], slugs: frozenset[str]) -> tuple[AssignedJobs, list[StageWarning]]:
    """Assign each job of a snapshot to its stage, and return warnings."""
    by_id = _by_id(rows)
    work: dict[str, Counter[JobEvidence]] = {}
    renders: list[RenderJob] = []
    strange: Counter[StageWarning] = Counter()
    for row in rows:
        named, step = _whereabouts(row, by_id)
        stage = named if named in slugs else None
        if stage is None or row.id is None or row.type not in KINDS:
            strange.update(_job_row_warnings(row, named, stage))
        if stage is not None and stage not in work:
            work[stage] = Counter()
        if row.type == JobType.RENDER:
            renders += [_render(row, stage, by_id)] if row.id else []
        elif stage is not None:
            work[stage][step, row.type or "", row.status or ""] += 1
    twins = sum(row.id is not None for row in rows) - len(by_id)
    strange.update({StageWarning(None, "with the id of another one"): twins} if twins else {})
    return AssignedJobs(work, renders), [
        StageWarning(stage, f"{count_noun(many, 'job')} {message}")
        for (stage, message), many in strange.items()
    ]


Rows = Mapping[str | None, Row]


def _by_id(rows: Iterable[Row]) -> Rows:
    rows_by_id: dict[str | None, Row] = {}
    for row in rows:
        if row.id in rows_by_id:
            # If several rows have the same id, it is unknown which row is right, so the smallest
            # row is taken to make the choice deterministic.
            rows_by_id[row.id] = min(row, rows_by_id[row.id], key=str)
        elif row.id is not None:
            rows_by_id[row.id] = row
    return rows_by_id


def _whereabouts(row: Row, by_id: Rows) -> tuple[str | None, str | None]:
    """Return the stage and the step that a job belongs to."""
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


def _job_row_warnings(row: Row, named: str | None, stage: str | None) -> Iterator[StageWarning]:
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


@dataclass(frozen=True, slots=True)
class StageRun:
    #: Language models of the stage run; None if the snapshot does not list them.
    models: tuple[str, ...] | None = None
    closed: frozenset[str] = frozenset()


def read_stage_runs(
    raws: object, structure: Structure
) -> tuple[dict[str, StageRun], list[StageWarning]]:
    """Return, by stage, the stage run that the snapshot contains, and warnings.

    Several runs of one stage are merged, so that their order does not matter.
    """
    raws_by_stage: dict[str | None, list[Raw]] = {}
    for raw in map(as_object, as_list(raws)):
        raws_by_stage.setdefault(as_text(raw.get("stageSlug")), []).append(raw)
    runs: dict[str, StageRun] = {}
    warned: list[StageWarning] = []
    for slug, stage_raws in raws_by_stage.items():
        if slug is None:
            warned.append(
                StageWarning(None, f"{count_noun(len(stage_raws), 'stage run')} without a stage")
            )
        elif slug not in structure.slugs:
            warned.append(
                StageWarning(None, f"a stage run of a stage that is not there: {quote_name(slug)}")
            )
        else:
            runs[slug] = _stage_run(stage_raws)
            warned += [
                StageWarning(slug, message)
                for message in _stage_run_warnings(slug, runs[slug], stage_raws, structure)
            ]
    return runs, warned


def _stage_run(raws: Sequence[Raw]) -> StageRun:
    named = any(isinstance(raw.get("models"), list) for raw in raws)
    models = dict.fromkeys(_texts(raws, "models"))
    # The order of models has a meaning within one stage run, but not across several stage runs,
    # whose models are therefore sorted.
    model_names = tuple(sorted(models) if raws[1:] else models)
    return StageRun(model_names if named else None, frozenset(_texts(raws, "closed")))


def _texts(raws: Sequence[Raw], name: str) -> Iterator[str]:
    for raw in raws:
        for value in map(as_text, as_list(raw.get(name))):
            if value is not None:
                yield value


def _stage_run_warnings(
    slug: str, run: StageRun, raws: Sequence[Raw], structure: Structure
) -> Iterator[str]:
    if raws[1:]:
        yield f"{count_noun(len(raws), 'stage run')} of it, taken together"
    for name in ("models", "closed"):
        values = [raw[name] for raw in raws if raw.get(name) is not None]
        if not all(isinstance(value, list) for value in values):
            yield f"its {name} are not a list"
        if any(as_text(item) is None for value in values for item in as_list(value)):
            yield f"some of its {name} are not names, and are left out"
    if slug in structure.graphs:
        unknown = run.closed - structure.graphs[slug].steps.keys()
        yield from (
            f"there is no step {quote_name(key)}, which is said to be closed" for key in unknown
        )
