"""Counts the jobs of a snapshot and assigns them to stages.

A snapshot may have hundreds of thousands of jobs, so equal jobs are counted together.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import NamedTuple, TypeAlias, cast

from waybook.dag.diagnostics import StageWarning, count_noun, quote_name
from waybook.dag.model import JobType
from waybook.dag.progress.report import RenderJob
from waybook.dag.progress.structure import JobEvidence
from waybook.dag.snapshots.rows import Raw, as_list, as_object, as_text

MAX_CONTINUATION_DEPTH = 100

SCALAR_TYPES = {str, NoneType}
KINDS = frozenset(map(str, JobType))
RENDER = str(JobType.RENDER)

_JobGroup: TypeAlias = tuple[str | None, str | None, str | None, str | None]


class Row(NamedTuple):
    id: str | None
    stage: str | None
    step: str | None
    type: str | None
    status: str | None
    model: str | None
    parent: str | None
    continues: str | None
    document_key: str | None


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


class _JobTable:
    def __init__(self, raws: object) -> None:
        self._rows = cast("Sequence[Raw]", as_list(raws))
        if not self._count():
            self._rows = [_normalize(raw) for raw in self._rows]
            self._count()

    def _count(self) -> bool:
        """Count the rows of each `_JobGroup`, and return whether all of them can be used."""
        try:
            self.ids: list[str | None] = list(map(_read_id, self._rows))
            self.groups: Counter[_JobGroup] = Counter(map(_read_group, self._rows))
        except (KeyError, TypeError):
            # A field is missing, or a value has an unexpected type.
            return False
        # All rows of a `_JobGroup` have equal values, so it is enough to check one row.
        values = chain(self.ids, chain.from_iterable(self.groups))
        # A row with an empty id must be read on its own.
        return SCALAR_TYPES.issuperset(map(type, values)) and "" not in self.ids

    def select(self, groups: Collection[_JobGroup]) -> Iterator[tuple[int, _JobGroup]]:
        if not groups and all(self.ids):
            return
        for place, group in enumerate(map(_read_group, self._rows)):
            if not self.ids[place] or group in groups:
                yield place, group

    def row(self, place: int) -> Row:
        return _read_row(self._rows[place])

    def find(self, job_id: str | None) -> Row | None:
        """Return the row with this id. If an id occurs twice, the smallest row is returned."""
        if job_id is None or job_id not in self._places:
            return None
        return min(map(self.row, self._places[job_id]), key=str)

    def count_duplicates(self) -> int:
        distinct = set(self.ids)
        return len(self.ids) - self.ids.count(None) - len(distinct) + (None in distinct)

    @cached_property
    def _places(self) -> Mapping[str | None, list[int]]:
        places: dict[str | None, list[int]] = {}
        for place, job_id in enumerate(self.ids):
            places.setdefault(job_id, []).append(place)
        return places


def _read_row(raw: object) -> Row:
    row = Row._make(map(as_object(raw).get, FIELDS))
    return row if SCALAR_TYPES.issuperset(map(type, row)) else Row._make(map(as_text, row))


def _normalize(raw: object) -> Raw:
    return dict(zip(FIELDS, _read_row(raw), strict=True))


@dataclass(frozen=True, slots=True)
class AssignedJobs:
    work: dict[str, Counter[JobEvidence]] = field(default_factory=dict)
    renders: list[RenderJob] = field(default_factory=list)

    def stage_work(self, stage: str) -> Counter[JobEvidence]:
        work = self.work.get(stage)
        if work is None:
            work = self.work[stage] = Counter()
        return work


def assign_jobs(raws: object, slugs: Collection[str]) -> tuple[AssignedJobs, list[StageWarning]]:
    jobs = _JobTable(raws)
    assigned, strange = AssignedJobs(), Counter[StageWarning]()
    groups = jobs.groups
    for place, group in jobs.select(set(filter(_is_single, groups))):
        groups[group] -= 1
        strange.update(_assign_row(jobs, place, slugs, assigned))
    for (named, step, kind, status), many in groups.items():
        if many:
            stage = named if named in slugs else None
            if stage is None or kind not in KINDS:
                for warning in _group_warnings(kind, named, stage):
                    strange[warning] += many
            if stage is not None:
                work = assigned.stage_work(stage)
                evidence = step, kind or "", status or ""
                work[evidence] = work.get(evidence, 0) + many
    twins = jobs.count_duplicates()
    strange.update({StageWarning(None, "with the id of another one"): twins} if twins else {})
    return assigned, [
        StageWarning(stage, f"{count_noun(many, 'job')} {message}")
        for (stage, message), many in strange.items()
    ]


def _is_single(group: _JobGroup) -> bool:
    """Return whether the rows of a `_JobGroup` must be examined one by one."""
    stage, step, kind, _ = group
    return not (stage and step and kind) or kind == RENDER


def _assign_row(
    jobs: _JobTable, place: int, slugs: Collection[str], assigned: AssignedJobs
) -> Iterator[StageWarning]:
    row = jobs.row(place)
    named, step = _locate(row, jobs)
    stage = named if named in slugs else None
    if row.id is None:
        yield StageWarning(stage, "without an id")
    yield from _group_warnings(row.type, named, stage)
    work = Counter[JobEvidence]() if stage is None else assigned.stage_work(stage)
    if row.type != RENDER:
        work[step, row.type or "", row.status or ""] += 1
    elif row.id:
        parent = jobs.find(row.parent) or row
        key, model = row.document_key or parent.document_key, row.model or parent.model
        assigned.renders.append(RenderJob(row.id, stage, row.status or "", key, model))


def _locate(row: Row, jobs: _JobTable) -> tuple[str | None, str | None]:
    if row.stage is not None and row.step is not None:
        return row.stage, row.step
    if row.type == RENDER:
        parent = jobs.find(row.parent) or row
        return row.stage or parent.stage, row.step
    continued = _continued(row, jobs)
    return row.stage or continued.stage, continued.step


def _continued(row: Row, jobs: _JobTable) -> Row:
    for _ in range(MAX_CONTINUATION_DEPTH):
        before = jobs.find(row.continues) if row.step is None else None
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
