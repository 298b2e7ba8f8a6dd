"""Caches compiled workflow definitions. Entries stay valid, because a version never changes."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib import import_module
from typing import cast
from uuid import UUID

import orjson

from waybook.dag.definitions.definition import (
    graphs_of,
    read_checked_definition,
    read_graphs,
    write_definition,
)
from waybook.dag.model import Dag
from waybook.errors import NextCall, NotFound
from waybook.json_values import Json
from waybook.run.model import CompiledDag
from waybook.store.driver.queries import Statement
from waybook.store.runs import writer
from waybook.store.runs.load import DefinitionRow

_MAX_ENTRIES = 200
#: Author of the built-in definitions. No user can have this name.
BUILTIN_AUTHOR = "waybook (built in)"


class DefinitionCache:
    def __init__(self) -> None:
        self._charts: OrderedDict[tuple[UUID, str, int], CompiledDag] = OrderedDict()

    def get(self, org_id: UUID, slug: str, version: int) -> CompiledDag | None:
        compiled_dag = self._charts.get((org_id, slug, version))
        if compiled_dag is not None:
            self._charts.move_to_end((org_id, slug, version))
        return compiled_dag

    def put(self, org_id: UUID, compiled_dag: CompiledDag) -> CompiledDag:
        self._charts[org_id, compiled_dag.dag.slug, compiled_dag.version] = compiled_dag
        if len(self._charts) > _MAX_ENTRIES:
            self._charts.popitem(last=False)
        return compiled_dag

    def current(self, org_id: UUID, slug: str, rows: Sequence[DefinitionRow]) -> CompiledDag:
        """Return the definition that new runs use, from the cache if possible.

        `rows` has the latest stored definition, if there is one. If a user added this definition,
        it is used. Otherwise, this program's built-in definition is used, because it may be newer
        than the stored one.
        """
        stored = rows[0] if rows else None
        if stored is not None and stored.created_by != BUILTIN_AUTHOR:
            known = self.get(org_id, slug, stored.version)
            return known or self.put(org_id, compile_stored(stored.body, stored.version))
        shipped = builtin_dags().get(slug)
        if stored is None:
            if shipped is None:
                raise NotFound(
                    "there is no workflow with this slug here",
                    next_call=NextCall("list_dags", {}, "List the workflows."),
                )
            return shipped
        if shipped is None:
            return self.put(org_id, compile_stored(stored.body, stored.version))
        if is_stored(shipped.dag, stored):
            return self.put(org_id, CompiledDag(shipped.dag, shipped.graphs, stored.version))
        return CompiledDag(shipped.dag, shipped.graphs, stored.version + 1)


def definition_statement(dag: Dag, version: int, now: datetime, by: str) -> Statement:
    """Return the statement that stores a version of a definition."""
    return writer.add_definition(
        slug=dag.slug,
        version=version,
        name=dag.name,
        body=definition_body(dag),
        body_hash=_hash(dag),
        now=now,
        by=by,
    )


def is_stored(dag: Dag, row: DefinitionRow) -> bool:
    return bytes.fromhex(row.body_hash) == _hash(dag)


def compile_definition(body: object, version: int) -> CompiledDag:
    """Check and compile a definition that a user supplied.

    Raises:
        BadRecipe: the definition is invalid.
    """
    return CompiledDag(*read_graphs(body), version)


def compile_stored(body: object, version: int) -> CompiledDag:
    """Compile a definition that was checked before, from the database or this package."""
    dag = read_checked_definition(body)
    return CompiledDag(dag, graphs_of(dag), version)


def definition_body(dag: Dag) -> Json:
    return cast("Json", write_definition(dag))


def _hash(dag: Dag) -> bytes:
    return sha256(orjson.dumps(definition_body(dag), option=orjson.OPT_SORT_KEYS)).digest()


@cache
def builtin_dags() -> dict[str, CompiledDag]:
    # Import the YAML parser only here, because it takes long to import.
    source = import_module("waybook.dag.definitions.source_text")
    return {
        slug: compile_stored(source.parse_definition(text), 1)
        for slug, text in source.builtin_definitions().items()
    }
