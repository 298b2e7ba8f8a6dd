"""The stage runs of a snapshot: which stages have begun, with which models, and what is closed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from waybook.dag.loose import Raw, as_list, as_object, as_text
from waybook.dag.structure import Structure
from waybook.dag.warned import StageWarning, count_noun, quote_name


@dataclass(frozen=True, slots=True)
class StageRun:
    #: None if nobody named them.
    models: tuple[str, ...] | None = None
    closed: frozenset[str] = frozenset()


def read_stage_runs(
    raws: object, structure: Structure
) -> tuple[dict[str, StageRun], list[StageWarning]]:
    """The run of each stage that has one, and what is strange.

    Several runs of one stage are taken together, so it does not matter which of them comes first.
    """
    found: dict[str | None, list[Raw]] = {}
    for raw in map(as_object, as_list(raws)):
        found.setdefault(as_text(raw.get("stageSlug")), []).append(raw)
    runs: dict[str, StageRun] = {}
    warned: list[StageWarning] = []
    for slug, told in found.items():
        if slug is None:
            warned.append(
                StageWarning(None, f"{count_noun(len(told), 'stage run')} without a stage")
            )
        elif slug not in structure.slugs:
            warned.append(
                StageWarning(None, f"a stage run of a stage that is not there: {quote_name(slug)}")
            )
        else:
            runs[slug] = _stage_run(told)
            warned += [
                StageWarning(slug, said) for said in _strange(slug, runs[slug], told, structure)
            ]
    return runs, warned


def _stage_run(raws: Sequence[Raw]) -> StageRun:
    named = any(isinstance(raw.get("models"), list) for raw in raws)
    models = dict.fromkeys(_texts(raws, "models"))
    # The order of one run's models means something, that of several runs does not.
    kept = tuple(sorted(models) if raws[1:] else models)
    return StageRun(kept if named else None, frozenset(_texts(raws, "closed")))


def _texts(raws: Sequence[Raw], name: str) -> Iterator[str]:
    for raw in raws:
        for value in map(as_text, as_list(raw.get(name))):
            if value is not None:
                yield value


def _strange(slug: str, run: StageRun, raws: Sequence[Raw], structure: Structure) -> Iterator[str]:
    if raws[1:]:
        yield f"{count_noun(len(raws), 'stage run')} of it, taken together"
    for name in ("models", "closed"):
        values = [raw[name] for raw in raws if raw.get(name) is not None]
        if not all(isinstance(value, list) for value in values):
            yield f"its {name} are not a list"
        if any(as_text(one) is None for value in values for one in as_list(value)):
            yield f"some of its {name} are not names, and are left out"
    if slug in structure.graphs:
        unknown = run.closed - structure.graphs[slug].steps.keys()
        yield from (
            f"there is no step {quote_name(key)}, which is said to be closed" for key in unknown
        )
