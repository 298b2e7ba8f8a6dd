"""Definitions as runs go by them: read and checked once, then remembered, for they never change."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, cast
from uuid import UUID

import orjson

from waybook.dag.definitions.definition import graphs_of, read_definition, write_definition
from waybook.dag.definitions.source_text import builtin_definitions, parse_definition
from waybook.dag.model import Dag
from waybook.errors import NextCall, NotFound
from waybook.json_values import Json
from waybook.run.model import CompiledDag

MAX_ENTRIES = 200
#: Who adds the definitions that come with us; no user is called so.
BUILTIN_AUTHOR = "waybook (built in)"


class DefinitionCache:
    def __init__(self, most: int = MAX_ENTRIES) -> None:
        """Remember so many, the ones asked for last."""
        self._charts: OrderedDict[tuple[UUID, str, int], CompiledDag] = OrderedDict()
        self._most = most

    def get(self, org_id: UUID, slug: str, version: int) -> CompiledDag | None:
        """The chart, if it has come by."""
        found = self._charts.get((org_id, slug, version))
        if found is not None:
            self._charts.move_to_end((org_id, slug, version))
        return found

    def put(self, org_id: UUID, compiled_dag: CompiledDag) -> CompiledDag:
        """Keep a chart for whoever needs it next."""
        self._charts[org_id, compiled_dag.dag.slug, compiled_dag.version] = compiled_dag
        if len(self._charts) > self._most:
            self._charts.popitem(last=False)
        return compiled_dag

    def current(
        self, org_id: UUID, slug: str, rows: Sequence[Sequence[Any]]
    ) -> "CurrentDefinition":
        """As `current_definition`; a large definition takes long to check, so that is done once.

        Raises:
            NotFound: there is none.
        """
        known = (
            self.get(org_id, slug, rows[0][0]) if rows and rows[0][-1] != BUILTIN_AUTHOR else None
        )
        if known is not None:
            return CurrentDefinition(known)
        current = current_definition(slug, rows)
        if not current.unsaved_body:
            self.put(org_id, current.compiled_dag)
        return current


def compile_definition(body: object, version: int) -> CompiledDag:
    """A definition, read and checked.

    Raises:
        BadRecipe: it is not one we can walk.
    """
    dag = read_definition(body)
    return CompiledDag(dag, graphs_of(dag), version)


def definition_body(dag: Dag) -> Json:
    """The definition as it is kept."""
    return cast("Json", write_definition(dag))


def definition_hash(body: Json) -> bytes:
    """What a definition says, as a hash that does not depend on the order of names."""
    return sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()


@dataclass(frozen=True, slots=True)
class CurrentDefinition:
    """The version of a definition that a new run goes by."""

    compiled_dag: CompiledDag
    #: Whether it is one of ours, in a version that has yet to be kept.
    unsaved_body: bool = False


def current_definition(slug: str, rows: Sequence[Sequence[Any]]) -> CurrentDefinition:
    """The definition of this slug, whose latest stored version is the first row, if there is one.

    A user's own wins over one that comes with us; one of ours is the one that we ship now.

    Raises:
        NotFound: there is none.
    """
    shipped = builtin_dags().get(slug)
    if not rows and shipped is None:
        raise NotFound(
            "there is no DAG with this slug here",
            next_call=NextCall("list_dags", {}, "see the DAGs there are"),
        )
    if not rows:
        return CurrentDefinition(builtin_dags()[slug], unsaved_body=True)
    version, _, body, digest, _, by = rows[0]
    if shipped is None or by != BUILTIN_AUTHOR:
        return CurrentDefinition(compile_definition(body, version))
    if bytes.fromhex(digest) == definition_hash(definition_body(shipped.dag)):
        return CurrentDefinition(CompiledDag(shipped.dag, shipped.graphs, version))
    return CurrentDefinition(
        CompiledDag(shipped.dag, shipped.graphs, version + 1), unsaved_body=True
    )


@cache
def builtin_dags() -> dict[str, CompiledDag]:
    """The definitions that come with us."""
    return {
        slug: compile_definition(parse_definition(text), 1)
        for slug, text in builtin_definitions().items()
    }
