"""Definitions as runs go by them: read and checked once, then remembered, for they never change."""

from collections import OrderedDict
from functools import cache
from hashlib import sha256
from typing import cast
from uuid import UUID

import orjson

from waybook.dag.builtins import builtin_definitions
from waybook.dag.definition import graphs_of, read_definition, write_definition
from waybook.dag.definition_text import parse_definition
from waybook.dag.model import Dag
from waybook.record.moment import Json
from waybook.run.model import Chart

MOST = 200
#: Who adds the definitions that come with us.
OURSELVES = "waybook"


class Charts:
    def __init__(self, most: int = MOST) -> None:
        """Remember so many, the ones asked for last."""
        self._charts: OrderedDict[tuple[UUID, str, int], Chart] = OrderedDict()
        self._most = most

    def get(self, org_id: UUID, slug: str, version: int) -> Chart | None:
        """The chart, if it has come by."""
        return self._charts.get((org_id, slug, version))

    def remember(self, org_id: UUID, chart: Chart) -> Chart:
        """Keep a chart for whoever needs it next."""
        self._charts[org_id, chart.dag.slug, chart.version] = chart
        if len(self._charts) > self._most:
            self._charts.popitem(last=False)
        return chart


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


@cache
def builtin_charts() -> dict[str, Chart]:
    """The definitions that come with us."""
    return {
        slug: chart_of(parse_definition(text), 1) for slug, text in builtin_definitions().items()
    }
