"""Reads the rows of a snapshot, which has the structure and progress of a run.

Values of an unexpected type count as missing. A snapshot may have hundreds of thousands of jobs, so
jobs with the same stage, step, type and status are counted together.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import TypeAlias, cast

from waybook.dag.diagnostics import StageWarning, count_noun, quote_name
from waybook.dag.model import JobType
from waybook.dag.progress.report import RenderJob, StageEvidence
from waybook.dag.progress.structure import JobEvidence, Structure


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    structure: Structure
    evidence: Mapping[str, StageEvidence]
    warnings: Mapping[str | None, Sequence[str]]


Raw = Mapping[str, object]

_EMPTY_OBJECT: Raw = {}


def as_object(value: object) -> Raw:
    return value if isinstance(value, dict) else _EMPTY_OBJECT


def as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str | None:
    """Return a text, or an integer as text. Return None for any other value or an empty text.

    >>> as_text("j1"), as_text(17), as_text(""), as_text(True), as_text(["j1"])
    ('j1', '17', None, None, None)
    """
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int and abs(value) < _MAX_ID else None


#: Largest integer that is accepted as an id, because formatting larger ones is slow.
_MAX_ID = 1 << 64


@dataclass(frozen=True, slots=True)
class StageRun:
    models: tuple[str, ...] | None = None
    closed: frozenset[str] = frozenset()


def read_stage_runs(
    raws: object, structure: Structure
) -> tuple[dict[str, StageRun], list[StageWarning]]:
    """Return the run of each stage, and warnings. Several runs of one stage are merged."""
    raws_by_stage: dict[str | None, list[Raw]] = {}
    for raw in map(as_object, as_list(raws)):
        raws_by_stage.setdefault(as_text(raw.get("stageSlug")), []).append(raw)
    runs: dict[str, StageRun] = {}
    warned: list[StageWarning] = []
    for slug, stage_raws in raws_by_stage.items():
        if slug is None:
            message = f"{count_noun(len(stage_raws), 'stage run')} without a stage"
            warned.append(StageWarning(None, message))
        elif slug not in structure.slugs:
            message = f"a stage run of an unknown stage: {quote_name(slug)}"
            warned.append(StageWarning(None, message))
        else:
            named = any(isinstance(raw.get("models"), list) for raw in stage_raws)
            models = dict.fromkeys(_texts(stage_raws, "models"))
            # Models merged from several runs are sorted. Those of a single run keep their order.
            names = tuple(sorted(models) if stage_raws[1:] else models)
            closed = frozenset(_texts(stage_raws, "closed"))
            runs[slug] = StageRun(names if named else None, closed)
            messages = _stage_run_warnings(slug, closed, stage_raws, structure)
            warned += [StageWarning(slug, message) for message in messages]
    return runs, warned


def _texts(raws: Sequence[Raw], name: str) -> Iterator[str]:
    for raw in raws:
        for value in map(as_text, as_list(raw.get(name))):
            if value is not None:
                yield value


def _stage_run_warnings(
    slug: str, closed: frozenset[str], raws: Sequence[Raw], structure: Structure
) -> Iterator[str]:
    if raws[1:]:
        yield f"{count_noun(len(raws), 'stage run')} of this stage, merged"
    for name in ("models", "closed"):
        values = [raw[name] for raw in raws if raw.get(name) is not None]
        if not all(isinstance(value, list) for value in values):
            yield f"its {name} are not a list"
        if any(as_text(item) is None for value in values for item in as_list(value)):
            yield f"some of its {name} are not names, and are left out"
    if slug in structure.graphs:
        unknown = closed - structure.graphs[slug].steps.keys()
        yield from (
            f"there is no step {quote_name(key)}, which is listed as closed" for key in unknown
        )


MAX_CONTINUATION_DEPTH = 100

SCALAR_TYPES = {str, NoneType}
KINDS = frozenset(map(str, JobType))
RENDER = str(JobType.RENDER)

_JobGroup: TypeAlias = tuple[str | None, str | None, str | None, str | None]


#: Values of the `FIELDS` of a job. Each value is a text or missing.
Row: TypeAlias = Mapping[str, str | None]

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


_read_id: Callable[[Raw], str | None] = itemgetter("id")
_read_group: Callable[[Raw], _JobGroup] = itemgetter("stageSlug", "stepKey", "jobType", "status")


def _read_row(raw: object) -> Row:
    values = list(map(as_object(raw).get, FIELDS))
    if not SCALAR_TYPES.issuperset(map(type, values)):
        values = list(map(as_text, values))
    return dict(zip(FIELDS, cast("list[str | None]", values), strict=True))


def _read_jobs(raws: object) -> tuple[Sequence[Raw], Sequence[str | None], Counter[_JobGroup]]:
    """Return the rows of the jobs, their ids, and the number of rows of each `_JobGroup`."""
    rows = cast("Sequence[Raw]", as_list(raws))
    try:
        ids, groups = list(map(_read_id, rows)), Counter(map(_read_group, rows))
        # All rows of a `_JobGroup` have equal values, so it is enough to check one row.
        values = chain(ids, chain.from_iterable(groups))
        # An empty id counts as missing, so its row must be normalized too.
        if SCALAR_TYPES.issuperset(map(type, values)) and "" not in ids:
            return rows, ids, groups
    except (KeyError, TypeError):
        # A field is missing, or a value has an unexpected type.
        pass
    rows = list(map(_read_row, rows))
    return rows, list(map(_read_id, rows)), Counter(map(_read_group, rows))


_RowsById: TypeAlias = Mapping[str | None, Sequence[Raw]]
#: For each stage, the number of jobs by step, type and status.
_Work: TypeAlias = defaultdict[str, Counter[JobEvidence]]


def assign_jobs(
    raws: object, slugs: Collection[str]
) -> tuple[_Work, list[RenderJob], list[StageWarning]]:
    """Count the jobs of each stage. Return the counts, the RENDER jobs, and warnings."""
    rows, ids, groups = _read_jobs(raws)
    work: _Work = defaultdict(Counter)
    renders: list[RenderJob] = []
    strange = Counter[StageWarning]()
    # Examine rows one by one if they lack a stage, step or type, or are RENDER jobs.
    single = {group for group in groups if not all(group[:3]) or group[2] == RENDER}
    if single or not all(ids):
        by_id = _index(ids, rows)
        for job_id, raw, group in zip(ids, rows, map(_read_group, rows), strict=True):
            if not job_id or group in single:
                groups[group] -= 1
                strange.update(_assign_row(_read_row(raw), by_id, slugs, work, renders))
    for (named, step, kind, status), many in groups.items():
        if many:
            stage = named if named in slugs else None
            if stage is None or kind not in KINDS:
                for warning in _group_warnings(kind, named, stage):
                    strange[warning] += many
            if stage is not None:
                counts, evidence = work[stage], (step, kind or "", status or "")
                counts[evidence] = counts.get(evidence, 0) + many
    distinct = set(ids)
    if twins := len(ids) - ids.count(None) - len(distinct) + (None in distinct):
        strange[StageWarning(None, "with the id of another job")] = twins
    warnings = [
        StageWarning(stage, f"{count_noun(many, 'job')} {message}")
        for (stage, message), many in strange.items()
    ]
    return work, renders, warnings


def _index(ids: Sequence[str | None], rows: Sequence[Raw]) -> _RowsById:
    by_id: dict[str | None, list[Raw]] = {}
    for job_id, raw in zip(ids, rows, strict=True):
        by_id.setdefault(job_id, []).append(raw)
    return by_id


def _assign_row(
    row: Row, by_id: _RowsById, slugs: Collection[str], work: _Work, renders: list[RenderJob]
) -> Iterator[StageWarning]:
    parent = _find(row["parent"], by_id) or row
    source = parent if row["jobType"] == RENDER else _continued(row, by_id)
    is_placed = row["stageSlug"] is not None and row["stepKey"] is not None
    named = row["stageSlug"] if is_placed else row["stageSlug"] or source["stageSlug"]
    step = row["stepKey"] if row["jobType"] == RENDER else source["stepKey"]
    stage = named if named in slugs else None
    if row["id"] is None:
        yield StageWarning(stage, "without an id")
    yield from _group_warnings(row["jobType"], named, stage)
    counts = Counter[JobEvidence]() if stage is None else work[stage]
    if row["jobType"] != RENDER:
        counts[step, row["jobType"] or "", row["status"] or ""] += 1
    elif row["id"]:
        key, model = (
            row["documentKey"] or parent["documentKey"],
            row["modelId"] or parent["modelId"],
        )
        renders.append(RenderJob(row["id"], stage, row["status"] or "", key, model))


def _find(job_id: str | None, by_id: _RowsById) -> Row | None:
    """Return a row with this id. If there are several, their order has no influence."""
    rows = () if job_id is None else by_id.get(job_id, ())
    return min(map(_read_row, rows), key=str, default=None)


def _continued(row: Row, by_id: _RowsById) -> Row:
    for _ in range(MAX_CONTINUATION_DEPTH):
        before = _find(row["continues"], by_id) if row["stepKey"] is None else None
        if before is None:
            break
        row = before
    return row


def _group_warnings(
    kind: str | None, named: str | None, stage: str | None
) -> Iterator[StageWarning]:
    if named is None:
        yield StageWarning(None, "without a stage")
    elif stage is None:
        yield StageWarning(None, f"of an unknown stage: {quote_name(named)}")
    if kind is None:
        yield StageWarning(stage, "without a type")
    elif kind not in KINDS:
        yield StageWarning(stage, f"of the unknown type {quote_name(kind)}")
