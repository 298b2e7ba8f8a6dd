"""Snapshots: the structure and progress of a run of another system, read from its rows.

Values of an unexpected type count as missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from waybook.dag.diagnostics import StageWarning, count_noun, quote_name
from waybook.dag.model import JobType, RecipeStep, Strategy
from waybook.dag.progress.report import StageEvidence
from waybook.dag.progress.structure import Structure


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
    """Return a text, or an integer such as a numeric id as text. Any other value gives None.

    >>> as_text("j1"), as_text(17), as_text(""), as_text(True), as_text(["j1"])
    ('j1', '17', None, None, None)
    """
    if type(value) is str:
        return value or None
    return str(value) if type(value) is int and abs(value) < _MAX_ID else None


#: Largest integer that is accepted as an id, because formatting larger ones is slow.
_MAX_ID = 1 << 64


def bare_step(key: str, number: int, *, skip: bool = False) -> RecipeStep:
    """Return a step of which only its place in the graph is known."""
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
    """Return the stage run of each stage, and warnings. Several runs of one stage are merged."""
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
