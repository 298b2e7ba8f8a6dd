"""Lists the columns of each table of plans and runs.

The SQL fragments that insert, select, import and verify rows are built from these lists, and so are
the functions that convert rows to `Plan`, `Step`, `Run` and other classes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

_ModelT = TypeVar("_ModelT", bound=tuple[Any, ...])


class _Column(NamedTuple):
    name: str
    type: str
    #: Name of the column in the audit and in Python, if it differs from `name`; or one of these
    #: words, for a column whose changes the audit does not record:
    #: `key` for an id or a position in the audit;
    #: `parent` for the id of the plan or run, which is not read with the row;
    #: `state` for a column that new rows do not set.
    role: str = ""

    @property
    def is_audited(self) -> bool:
        return self.role not in {"key", "parent", "state"}

    @property
    def field(self) -> str:
        return self.role if self.role and self.is_audited else self.name


class Table:
    def __init__(self, name: str, alias: str, columns: str) -> None:
        """Create a table from a list of its columns. Queries refer to the table by `alias`."""
        self.name = name
        self.alias = alias
        self.columns = tuple(_Column(*column.split()) for column in columns.split(","))
        self.inserted = tuple(column for column in self.columns if column.role != "state")
        self.read = tuple(column for column in self.columns if column.role != "parent")

    def reader(
        self, model: type[_ModelT], converters: Mapping[str, Callable[[Any], object]]
    ) -> Callable[[Iterable[Sequence[Any]]], list[_ModelT]]:
        """Return a function that converts the read columns of rows to named tuples.

        The keys of `converters` are column types or field names. Null becomes None, or an empty
        tuple if the column is an array. Values are converted column by column, because that is
        faster than row by row.

        Raises:
            TypeError: the fields of the named tuple differ from the columns, or have another order.
        """
        fields = tuple(column.field for column in self.read)
        if fields != getattr(model, "_fields", None):
            raise TypeError(f"{self.name}: columns differ from the fields of {model.__name__}")
        conversions = [
            (place, convert, () if column.type == "text[]" else None)
            for place, column in enumerate(self.read)
            if (convert := converters.get(column.field) or converters.get(column.type))
        ]

        def read(rows: Iterable[Sequence[Any]]) -> list[_ModelT]:
            columns: list[Sequence[Any]] = [*zip(*rows, strict=True)]
            for place, convert, missing in conversions if columns else ():
                columns[place] = [convert(value) if value else missing for value in columns[place]]
            return [*map(model, *columns)] if columns else []

        return read


#: Each table begins with its name and its alias in queries. The indented lines are its columns:
#: name, type and, if it has one, role.
_LISTS: Final = """
plan p
    id text key, name text, status text, revision integer, stall_seconds integer,
    resumed_at timestamptz, completed_at timestamptz, fail_reason text, canceled boolean,
    usage json, budget json, audit_seq integer key, audit_hash bytea key,
    updated_at timestamptz key
plan_brief b
    plan_id text parent, research_question text, formatting_notes text, skill_execution_id uuid,
    created_at timestamptz, created_by text, copied_from text, copied_seq integer,
    sequential boolean, simulated boolean
plan_step s
    plan_id text parent, id text key, step_order integer order, step_type text type, title text,
    status text, attempt integer, stall_seconds integer, in_progress_since timestamptz,
    last_seen_at timestamptz state, completed_at timestamptz, held_by text, held_session text,
    fail_reason text, depends_on text[], max_attempts smallint, silent_holders smallint,
    copied_from text, answers_revision integer, touches text
step_brief b
    step_id text key, instructions text, result_schema json, required_sources smallint
step_result r
    step_id text key, result_summary json, confidence float8, report json, formatting_notes text
branching_condition c
    plan_id text parent, id uuid key, step_id text, position integer, expression text,
    action text, target_step_id text, steps json, reason text, outcome text, from_step_id text,
    max_repeats smallint, repeats smallint, on_exhausted text, cause json
review r
    plan_id text parent, id text key, step_id text, summary text, questions json,
    result_summary json, requested_at timestamptz, requested_by text, decision text,
    feedback text, decided_at timestamptz, decided_by text, decided_via text, requested_as text,
    decided_as text
plan_session k
    plan_id text parent, session text key, seen_at timestamptz
artifact a
    plan_id text parent, id uuid key, step_id text, kind text, title text, content json,
    superseded boolean, media_type text, tags json, metadata json, version integer,
    content_hash text, created_at timestamptz, created_by text, audit_seq integer key,
    audit_hash bytea key
source s
    id uuid key, url text, title text, quote text, content_hash text, created_at timestamptz key,
    created_by text key
artifact_source l
    artifact_id uuid, source_id uuid, position integer, retrieved_at timestamptz
usage u
    plan_id text parent, run_id text parent, id uuid key, step_id text, job_id text,
    attempt bigint, input_tokens bigint, output_tokens bigint, cost_micros bigint, model text,
    at timestamptz, by text, session text
comment m
    plan_id text parent, run_id text parent, id text key, step_id text, job_id text, body text,
    assignee text, created_at timestamptz, created_by text, session text, channel text,
    resolved_at timestamptz, resolved_by text
run r
    id text key, name text, dag_slug text, dag_version integer, completed_at timestamptz,
    canceled_at timestamptz, canceled_by text, cancel_reason text, copied_from text,
    copied_seq integer, usage json, lists json, audit_seq integer key, audit_hash bytea key,
    updated_at timestamptz key
run_brief b
    run_id text parent, input json, created_at timestamptz, created_by text, simulated boolean
stage_run g
    run_id text parent, stage_slug text key, models json, prior json, started_at timestamptz,
    completed_at timestamptz, feedback text, feedback_at timestamptz, feedback_by text
stage_step s
    run_id text parent, stage_slug text key, step_key text key, total integer, done integer,
    failed integer, opened_at timestamptz, closed_at timestamptz
job j
    run_id text parent, id text key, stage_slug text, step_key text, job_type text, model text,
    rank integer, unit json, status text, attempt integer, tries integer, ready_at timestamptz,
    held_by text, held_session text, started_at timestamptz, completed_at timestamptz, error text,
    continues_id text, part integer, document_id uuid, counted boolean
job_part p
    run_id text parent, job_id text key, part integer, content text, content_hash text
document d
    run_id text parent, id uuid key, stage_slug text, step_key text, job_id text,
    document_key text, model text, lineage text, reviewer text, version integer, content text,
    content_hash text, created_at timestamptz, copied_from uuid
rendered_document h
    run_id text parent, id uuid key, document_id uuid, job_id text, markdown text, html text,
    content_hash text, created_at timestamptz
late_result l
    run_id text parent, id uuid key, job_id text, attempt integer, content text,
    content_hash text, created_at timestamptz, created_by text
"""


TABLES: Final = {
    name: Table(name, alias, columns)
    for name, alias, columns in re.findall(r"^(\w+) (\w)\n((?: .+\n)+)", _LISTS, re.MULTILINE)
}
JSON_COLUMNS: Final = frozenset(
    column.name for table in TABLES.values() for column in table.columns if column.type == "json"
)


def _fragments(table: Table) -> Iterator[tuple[str, Iterable[str]]]:
    names = {column: f"{table.alias}.{column.name}" for column in table.columns}
    yield "columns_of", (column.name for column in table.inserted)
    yield "values_of", (f"%({column.name})s" for column in table.inserted)
    own = (column for column in table.inserted if column.role != "parent")
    yield "types_of", (f"{column.name} {column.type}" for column in own)
    forms = {"uuid": "{0}::text", "text[]": "array_to_string({0}, ' ') as {1}"}
    yield (
        "select_of",
        (forms.get(c.type, "{0}").format(names[c], c.name) for c in table.read),
    )
    yield "list_of", (names[column] for column in table.read)
    forms = {"text[]": "coalesce({0}, '{{}}')"}
    audited = (column for column in table.columns if column.is_audited)
    yield "audit_of", (f"'{c.field}', {forms.get(c.type, '{0}').format(names[c])}" for c in audited)


#: SQL fragments by name. A query includes `columns_of_plan_step` as `:columns_of_plan_step`.
FRAGMENTS: Final[Mapping[str, str]] = {
    f"{use}_{table.name}": ", ".join(texts)
    for table in TABLES.values()
    for use, texts in _fragments(table)
}
