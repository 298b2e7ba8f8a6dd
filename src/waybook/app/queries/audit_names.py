"""Names of the plans, runs, steps and jobs that audit entries refer to."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from waybook.app.queries.audit import changes_in, entry_details
from waybook.app.queries.plans.plan_list import PlanFilter, PlanOrder, summaries_statement
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Entity
from waybook.core.short_ids import parse_short_id
from waybook.store import agents
from waybook.store.agents import NameRow
from waybook.store.audit import SealedEntry
from waybook.store.driver.queries import is_id

RowName: TypeAlias = NameRow
Names: TypeAlias = Mapping[str, RowName]
ITEM_FIELDS: Final = ("stepId", "jobId")
NAMED_ENTITIES: Final = frozenset({Entity.STEP, Entity.JOB})
MAX_NAMED_CHANGES: Final = 30
MAX_SUBJECTS: Final = 10
MAX_SEARCHED_RUNS: Final = 500


async def find_names(ctx: RequestContext, entries: Iterable[SealedEntry]) -> Names:
    ids = {row_id for entry in entries for row_id in _ids_in(entry) if is_id(row_id)}
    if not ids:
        return {}
    (rows,) = await ctx.read(agents.names_statement(ids))
    return agents.read_names(rows)


async def find_subjects(ctx: RequestContext, text: str) -> list[RowName]:
    """Return the newest plans and runs whose name contains a text."""
    if is_id(text) or parse_short_id(text) is not None:
        return []
    wanted = PlanFilter(order=PlanOrder.CREATION, all=True, text=text)
    plans, runs = await ctx.read(
        summaries_statement(wanted, MAX_SUBJECTS),
        agents.SQL["runs_named"](text=text, newest=MAX_SEARCHED_RUNS, most=MAX_SUBJECTS),
    )
    named = (RowName(kind="plan", id=p.id, name=p.name, number=None, work_id=None) for p in plans)
    return [*named, *runs]


def item_of(entry: SealedEntry, names: Names) -> RowName | None:
    details = entry_details(entry)
    for field in ITEM_FIELDS:
        named = details.get(field)
        if isinstance(named, str) and named in names:
            return names[named]
    return None


def _ids_in(entry: SealedEntry) -> Iterator[str]:
    yield entry.subject_id
    details = entry_details(entry)
    yield from (str(details[field]) for field in ITEM_FIELDS if field in details)
    for number, change in enumerate(changes_in([entry])):
        if number >= MAX_NAMED_CHANGES:
            return
        if change.entity in NAMED_ENTITIES:
            yield change.id
