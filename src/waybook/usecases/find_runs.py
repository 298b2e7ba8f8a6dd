"""Runs for a person: all of them, or the one meant by a few letters."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from waybook.run.model import CompiledDag
from waybook.run.standing import RunState
from waybook.store import runs
from waybook.usecases.call import RequestContext
from waybook.usecases.meant import MAX_CANDIDATES, resolve_one
from waybook.usecases.run_call import load_definition


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSummary:
    """A stage that has been started, with its steps counted."""

    slug: str
    completed: bool
    #: Whether a person has said something of it.
    told: bool
    closed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in a list: what it is called, how it stands, when something last happened."""

    id: str
    name: str
    compiled_dag: CompiledDag
    created_at: datetime
    created_by: str
    updated_at: datetime
    completed_at: datetime | None
    #: The database's time when we looked.
    now: datetime
    #: The stages that have been started, in the order they were.
    stages: tuple[StageSummary, ...]

    @property
    def state(self) -> RunState:
        """Where the run stands as a whole."""
        if self.completed_at is not None:
            return RunState.COMPLETED
        if any(stage.failed for stage in self.stages):
            return RunState.FAILED
        return RunState.AWAITING_FEEDBACK if self.awaiting else RunState.IN_PROGRESS

    @property
    def current(self) -> StageSummary | None:
        """The stage that was started last and is not completed."""
        return next((stage for stage in reversed(self.stages) if not stage.completed), None)

    @property
    def awaiting(self) -> StageSummary | None:
        """The stage a person has to say something of, if nothing else goes on."""
        if self.completed_at is not None or self.current is not None:
            return None
        after = self.compiled_dag.dag.after
        return next((s for s in self.stages if not s.told and after(s.slug)), None)

    @property
    def completed_stages(self) -> int:
        return sum(stage.completed for stage in self.stages)

    @property
    def total_stages(self) -> int:
        return len(self.compiled_dag.order)

    def steps_of(self, slug: str) -> int:
        """How many steps a stage has."""
        return len(self.compiled_dag.graphs[slug].order)


async def find_runs(
    ctx: RequestContext, text: str = "", *, open_only: bool = True, limit: int = 100
) -> list[RunSummary]:
    """Runs whose id begins with the text or whose name holds it, newest activity first."""
    (rows,) = await ctx.read(runs.find_statement(limit, open_only=open_only, text=text))
    return await read_run_summaries(ctx, rows)


async def read_run_summaries(
    ctx: RequestContext, rows: Sequence[Sequence[Any]]
) -> list[RunSummary]:
    """The runs that were found, each with the definition it goes by."""
    return [_found(row, await load_definition(ctx, row[2], row[3])) for row in rows]


async def resolve_run(ctx: RequestContext, text: str | None) -> RunSummary:
    """The one run that is meant; if nothing is said, the only open one.

    A run is meant by its id, by the beginning of it, or by its name or a part of it.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several.
    """
    found = await find_runs(ctx, text or "", open_only=text is None, limit=MAX_CANDIDATES)
    return resolve_one(found, text, what="run", tool="list_dags")


def _found(row: Sequence[Any], compiled_dag: CompiledDag) -> RunSummary:
    run_id, name, _, _, created_at, created_by, updated_at, completed_at, now, stages = row
    return RunSummary(
        id=run_id,
        name=name,
        compiled_dag=compiled_dag,
        created_at=created_at,
        created_by=created_by,
        updated_at=updated_at,
        completed_at=completed_at,
        now=now,
        stages=tuple(
            StageSummary(slug=slug, completed=completed, told=told, closed=closed, failed=failed)
            for slug, completed, told, closed, failed in stages or ()
        ),
    )
