"""Outputs for people: those of a plan, and one of them whole."""

from dataclasses import dataclass

from waybook.dag.page import harmless
from waybook.errors import NextCall, NotFound
from waybook.plan.media_types import ending
from waybook.plan.output import Output
from waybook.store import outputs
from waybook.store.plans import Wanted
from waybook.usecases.call import Call, known


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeOutput:
    """An output with its text."""

    output: Output
    plan_id: str
    content: str


async def list_outputs(call: Call, plan_id: str) -> list[Output]:
    """The outputs of a plan with all their versions, newest first.

    Raises:
        NotFound: the plan is not there, or not this org's.
    """
    plan_id = known(plan_id)
    wanted = Wanted(plan_id=plan_id, conditions=False, review=False)
    _, (rows,) = await call.look(wanted, outputs.outputs_statement(plan_id))
    return outputs.read_outputs(rows)


async def read_output(call: Call, output_id: str) -> WholeOutput:
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
    return WholeOutput(output=output, plan_id=rows[0][7], content=rows[0][8])


def file_name(output: Output) -> str:
    """What the file of an output is called, wherever it is kept."""
    return f"{harmless(output.title)}.v{output.version}.{ending(output.media_type)}"
