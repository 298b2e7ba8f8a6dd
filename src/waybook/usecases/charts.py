"""Definitions as runs go by them: read and checked once, then remembered, for they never change."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

import orjson

from waybook.dag.builtins import builtin_definitions
from waybook.dag.definition import graphs_of, read_definition, write_definition
from waybook.dag.definition_text import parse_definition
from waybook.dag.model import Dag
from waybook.errors import NextCall, NotFound
from waybook.record.moment import Json
from waybook.run.model import Chart

MOST = 200
#: Who adds the definitions that come with us; no user is called so.
OURSELVES = "waybook (built in)"


class Charts:
    def __init__(self, most: int = MOST) -> None:
        """Remember so many, the ones asked for last."""
        self._charts: OrderedDict[tuple[UUID, str, int], Chart] = OrderedDict()
        self._most = most

    def get(self, org_id: UUID, slug: str, version: int) -> Chart | None:
        """The chart, if it has come by."""
        found = self._charts.get((org_id, slug, version))
        if found is not None:
            self._charts.move_to_end((org_id, slug, version))
        return found

    def remember(self, org_id: UUID, chart: Chart) -> Chart:
        """Keep a chart for whoever needs it next."""
        self._charts[org_id, chart.dag.slug, chart.version] = chart
        if len(self._charts) > self._most:
            self._charts.popitem(last=False)
        return chart

    def current(self, org_id: UUID, slug: str, rows: Sequence[Sequence[Any]]) -> "Current":
        """As `current_chart`; a large definition takes long to check, so that is done once.

        Raises:
            NotFound: there is none.
        """
        known = self.get(org_id, slug, rows[0][0]) if rows and rows[0][-1] != OURSELVES else None
        if known is not None:
            return Current(known)
        current = current_chart(slug, rows)
        if not current.unkept:
            self.remember(org_id, current.chart)
        return current


def chart_of(body: object, version: int) -> Chart:
    """A definition, read and checked.

    Raises:
        BadRecipe: it is not one we can walk.
    """
    dag = read_definition(body)
    return Chart(dag, graphs_of(dag), version)


def body_of(dag: Dag) -> Json:
    """The definition as it is kept."""
    return cast("Json", write_definition(dag))


def hash_of_body(body: Json) -> bytes:
    """What a definition says, as a hash that does not depend on the order of names."""
    return sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()


@dataclass(frozen=True, slots=True)
class Current:
    """The version of a definition that a new run goes by."""

    chart: Chart
    #: Whether it is one of ours, in a version that has yet to be kept.
    unkept: bool = False


def current_chart(slug: str, rows: Sequence[Sequence[Any]]) -> Current:
    """The definition of this slug, whose latest stored version is the first row, if there is one.

    A user's own wins over one that comes with us; one of ours is the one that we ship now.

    Raises:
        NotFound: there is none.
    """
    shipped = builtin_charts().get(slug)
    if not rows and shipped is None:
        raise NotFound(
            "there is no DAG with this slug here",
            next_call=NextCall("list_dags", {}, "see the DAGs there are"),
        )
    if not rows:
        return Current(builtin_charts()[slug], unkept=True)
    version, _, body, digest, _, by = rows[0]
    if shipped is None or by != OURSELVES:
        return Current(chart_of(body, version))
    if bytes.fromhex(digest) == hash_of_body(body_of(shipped.dag)):
        return Current(Chart(shipped.dag, shipped.graphs, version))
    return Current(Chart(shipped.dag, shipped.graphs, version + 1), unkept=True)


@cache
def builtin_charts() -> dict[str, Chart]:
    """The definitions that come with us."""
    return {
        slug: chart_of(parse_definition(text), 1) for slug, text in builtin_definitions().items()
    }
