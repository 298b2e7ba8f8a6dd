"""Workflows for people: those there are, and one of them whole, in any of its versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.dag.counts import documents_expected
from waybook.dag.structure import counts_of, sound_structure
from waybook.run.model import Chart
from waybook.store import definitions
from waybook.usecases.call import Call
from waybook.usecases.charts import OURSELVES, builtin_charts, chart_of

MOST_VERSIONS = 100
#: For so many models it is said how many documents to expect.
MODEL_COUNTS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    number: int
    created_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A definition, and the versions that were kept; none of one of ours nobody has run yet."""

    chart: Chart
    versions: tuple[Version, ...]
    #: Whether it comes with us.
    built_in: bool


async def list_workflows(call: Call) -> list[Workflow]:
    """Every definition in its latest version."""
    (rows,) = await call.read(definitions.definitions_statement())
    stored = {row[0]: row[1:] for row in rows}
    slugs = sorted({*stored, *builtin_charts()})
    return [_workflow(call, slug, [stored[slug]] if slug in stored else []) for slug in slugs]


async def read_workflow(call: Call, slug: str, version: int | None = None) -> Workflow:
    """One definition, in its latest version or in another.

    Raises:
        NotFound: there is none.
    """
    found, versions = await call.read(
        definitions.definition_statement(slug, version),
        definitions.versions_statement(slug, MOST_VERSIONS),
    )
    kept = tuple(_version(*row) for row in versions)
    if version is not None and found:
        chart, by = chart_of(found[0][2], found[0][0]), found[0][5]
        return Workflow(chart=chart, versions=kept, built_in=by == OURSELVES)
    return _workflow(call, slug, found, kept)


def documents_by_models(chart: Chart) -> Mapping[str, Sequence[int | None]]:
    """How many documents each stage will have, for each number of models; None if unknown."""
    structure = sound_structure(chart.dag, chart.graphs)
    found = [
        counts_of(structure, {chart.order[0]: tuple(f"m{n}" for n in range(count))})
        for count in MODEL_COUNTS
    ]
    return {
        slug: [
            documents_expected(chart.stages[slug], counts[slug]) if slug in counts else None
            for counts in found
        ]
        for slug in chart.order
    }


def _workflow(
    call: Call, slug: str, rows: Sequence[Any], kept: tuple[Version, ...] = ()
) -> Workflow:
    current = call.house.charts.current(call.caller.org_id, slug, rows)
    versions = kept or tuple(_version(row[0], row[4], row[5]) for row in rows)
    ours = not rows or rows[0][5] == OURSELVES
    return Workflow(chart=current.chart, versions=versions, built_in=ours)


def _version(number: int, created_at: datetime, created_by: str) -> Version:
    return Version(number=number, created_at=created_at.astimezone(UTC), created_by=created_by)
