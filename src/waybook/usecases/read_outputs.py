"""Outputs for people: those of a plan, and one of them whole."""

from waybook.dag.page import harmless
from waybook.errors import NextCall, NotFound
from waybook.plan.media_types import ending
from waybook.plan.output import Output
from waybook.store import outputs
from waybook.store.plans import Wanted
from waybook.usecases.call import Call, known
from waybook.usecases.exchange import ReadableOutput


async def list_outputs(call: Call, plan_id: str) -> list[Output]:
    """The outputs of a plan with all their versions, newest first.

    Raises:
        NotFound: the plan is not there, or not this org's.
    """
    plan_id = known(plan_id)
    wanted = Wanted(plan_id=plan_id, review=False)
    _, (rows,) = await call.look(wanted, outputs.outputs_statement(plan_id))
    return outputs.read_outputs(rows)


async def read_output(call: Call, output_id: str) -> ReadableOutput:
    """One output, with its text.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    (rows,) = await call.read(outputs.output_statement(known(output_id)))
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
    return f"{harmless(output.title)}.v{output.version}.{ending(output.media_type)}"
