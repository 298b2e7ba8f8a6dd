"""What the work of an org took, for people: in all, by model, by plan and run. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.record.usage import Totals
from waybook.store import usage
from waybook.store.usage import TOTALS_COLUMNS, read_totals
from waybook.usecases.call import RequestContext

#: How many models, and how many plans and runs, one answer names unless told otherwise.
DEFAULT_LIMIT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    #: None where nobody told.
    model: str | None
    usage: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUsage:
    """What one plan or one run took, or the server's own model for a tool."""

    kind: str
    id: str | None
    name: str
    usage: Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgUsage:
    since: datetime
    until: datetime
    usage: Totals
    models: tuple[ModelUsage, ...]
    work: tuple[WorkUsage, ...]
    #: How many there are, named here or not.
    models_total: int
    work_total: int


async def count_usage(
    ctx: RequestContext, since: datetime | None = None, most: int = DEFAULT_LIMIT
) -> OrgUsage:
    """Look at what was taken since then, or in the last thirty days, in one snapshot."""
    totals, models, work = await ctx.read(*usage.org_statements(since, most))
    (row,) = totals
    began, now = row[TOTALS_COLUMNS:]
    return OrgUsage(
        since=began.astimezone(UTC),
        until=now.astimezone(UTC),
        usage=read_totals(row),
        models=tuple(
            ModelUsage(model=one[TOTALS_COLUMNS], usage=read_totals(one)) for one in models
        ),
        work=tuple(_work(one) for one in work),
        models_total=models[0][-1] if models else 0,
        work_total=work[0][-1] if work else 0,
    )


def _work(row: Sequence[Any]) -> WorkUsage:
    plan_id, run_id, name, _ = row[TOTALS_COLUMNS:]
    kind = "plan" if plan_id else "run" if run_id else "tool"
    return WorkUsage(kind=kind, id=plan_id or run_id, name=name, usage=read_totals(row))
