"""Reads the rows of a snapshot, which has the structure and progress of a run of any system.

Values of an unexpected type count as missing. A snapshot may have hundreds of thousands of jobs, so
equal jobs are counted together.
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
from waybook.dag.model import JobType, RecipeStep, Strategy
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


def bare_step(key: str, number: int, *, skip: bool = False) -> RecipeStep:
    """Return a step of which only the place in the graph is known."""
    return RecipeStep(
        key=key,
        number=number,
        name=key,
        job_type=JobType.EXECUTE,
        strategy=Strategy.ALL_TO_ONE,
        output_type=key,
        skip=skip,
    )


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
            warned.append(
                StageWarning(None, f"{count_noun(len(stage_raws), 'stage run')} without a stage")
            )
        elif slug not in structure.slugs:
            warned.append(
                StageWarning(None, f"a stage run of an unknown stage: {quote_name(slug)}")
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
    # Models merged from several runs are sorted. Those of a single run keep their order.
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
            self._rows = [dict(zip(FIELDS, _read_row(raw), strict=True)) for raw in self._rows]
            self._count()

    def _count(self) -> bool:
        """Count the rows of each `_JobGroup`. Return False if rows must be normalized first."""
        try:
            self.ids: list[str | None] = list(map(_read_id, self._rows))
            self.groups: Counter[_JobGroup] = Counter(map(_read_group, self._rows))
        except (KeyError, TypeError):
            # A field is missing, or a value has an unexpected type.
            return False
        # All rows of a `_JobGroup` have equal values, so it is enough to check one row.
        values = chain(self.ids, chain.from_iterable(self.groups))
        # An empty id counts as missing, so its row must be normalized too.
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
        """Return the row with this id. If several rows have the id, their order does not matter."""
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
