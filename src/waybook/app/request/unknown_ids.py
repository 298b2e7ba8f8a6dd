"""Finds out which argument of a failed call has an id that does not exist in the org."""

from typing import Final

from waybook.app.request.arguments import ToolArguments, id_not_found
from waybook.app.request.request_context import RequestContext
from waybook.core.ids import IdKind
from waybook.errors import NotFound
from waybook.store import agents

_KINDS: Final = {
    "plan_id": IdKind.PLAN,
    "step_id": IdKind.STEP,
    "run_id": IdKind.RUN,
    "job_id": IdKind.JOB,
    "review_id": IdKind.REVIEW,
}


async def name_unknown_id(ctx: RequestContext, args: ToolArguments, error: NotFound) -> NotFound:
    """Return an error that names the argument with the unknown id.

    If all ids exist and have the right kind, return the given error.
    """
    named = {name: text for name in _KINDS if (text := getattr(args, name, None)) is not None}
    if "argument" in error.details or not named:
        return error
    (rows,) = await ctx.read(agents.names_statement(list(named.values())))
    kinds = {row.id: row.kind for row in rows}
    for name, text in named.items():
        if kinds.get(text) != _KINDS[name]:
            at = str(type(args).model_fields[name].alias)
            return id_not_found(_KINDS[name], at, text, kinds.get(text))
    return error
