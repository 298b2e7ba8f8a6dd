"""Outputs for people: those of a plan, and one of them whole."""

import contextlib
from dataclasses import dataclass
from datetime import datetime

from waybook.dag.page import safe_file_name
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.plan.media_types import file_extension
from waybook.plan.output import Output
from waybook.record.moment import rfc3339
from waybook.store import outputs
from waybook.store.ids import is_id
from waybook.store.plans import PlanRequest
from waybook.store.runs import LAST_ID
from waybook.usecases.call import RequestContext, id_or_nil
from waybook.usecases.exchange import ReadableOutput

PAGE_SIZE = 25


async def list_outputs(ctx: RequestContext, plan_id: str) -> list[Output]:
    """The outputs of a plan with all their versions, newest first.

    Raises:
        NotFound: the plan is not there, or not this org's.
    """
    _, found = await plan_outputs(ctx, plan_id)
    return found


async def plan_outputs(ctx: RequestContext, plan_id: str) -> tuple[str, list[Output]]:
    """The same, and the name of the plan.

    Raises:
        NotFound: the plan is not there, or not this org's.
    """
    plan_id = id_or_nil(plan_id)
    wanted = PlanRequest(plan_id=plan_id, review=False)
    loaded, (rows,) = await ctx.load_plan(wanted, outputs.outputs_statement(plan_id))
    return loaded.plan.name, outputs.read_outputs(rows)


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """An output in the latest of its versions, and the plan it is of."""

    output: Output
    plan_id: str
    plan_name: str


@dataclass(frozen=True, slots=True)
class OutputListPage:
    outputs: list[PlanOutput]
    #: Where the next page goes on; None at the end.
    next_cursor: str | None


async def latest_outputs(
    ctx: RequestContext, behind: str | None = None, limit: int = PAGE_SIZE
) -> OutputListPage:
    """The outputs of all plans, newest first."""
    (rows,) = await ctx.read(outputs.latest_statement(_place(behind), limit + 1))
    found = outputs.read_outputs(rows)
    shown = [
        PlanOutput(output, row[7], row[8])
        for output, row in zip(found[:limit], rows[:limit], strict=True)
    ]
    last = shown[-1].output if len(found) > limit else None
    return OutputListPage(shown, f"{rfc3339(last.created_at)}~{last.id}" if last else None)


def _place(behind: str | None) -> tuple[str, str]:
    """The place all outputs asked for stand behind.

    Raises:
        InvalidInput: it is none of ours.
    """
    if behind is None:
        return "infinity", LAST_ID
    at, _, output_id = behind.partition("~")
    with contextlib.suppress(ValueError):
        if is_id(output_id):
            return rfc3339(datetime.fromisoformat(at)), output_id
    raise InvalidInput("this list of outputs has no such beginning; start from the first")


async def read_output(ctx: RequestContext, output_id: str) -> ReadableOutput:
    """One output, with its text.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    (rows,) = await ctx.read(outputs.output_statement(id_or_nil(output_id)))
    if not rows:
        raise NotFound(
            "there is no output with this id here",
            next_call=NextCall("list_active_plans", {}, "see the plans there are"),
        )
    (output,) = outputs.read_outputs(rows)
    return ReadableOutput(
        output_id=output.id,
        plan_id=rows[0][7],
        title=output.title,
        media_type=output.media_type,
        version=output.version,
        created_at=output.created_at,
        created_by=output.created_by,
        content=rows[0][8],
        file_name=file_name(output),
    )


def file_name(output: Output) -> str:
    """What the file of an output is called, wherever it is kept."""
    return f"{safe_file_name(output.title)}.v{output.version}.{file_extension(output.media_type)}"
