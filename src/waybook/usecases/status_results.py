"""Results of a plan's steps as far as a reply can carry them; no more of them is read."""

import re
from typing import Any, Final

import orjson

from waybook.record.moment import Json
from waybook.store import plans
from waybook.usecases.call import Body, Call
from waybook.usecases.views import (
    DETAIL_RESULTS_BUDGET,
    MAX_BYTES_PER_CHARACTER,
    cut_result,
    fitted,
    result_share,
)

#: What may be left of an escape at the end of a JSON string that was cut, with half a pair.
_CUT_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$")
_HALF_PAIR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}$")


async def shown_results(
    call: Call, plan_id: str, rows: list[tuple[Any, ...]], most: int, budget: int | None
) -> dict[str, Body]:
    """Return the result and confidence of each step, cut fairly to the budget if there is one.

    `rows` are those of `results_within_statement` for this many bytes. If the results have more,
    they were not read, and their beginnings are read here.
    """
    if sum(row[3] for row in rows) <= most:
        whole: dict[str, Json] = {row[0]: row[1] for row in rows}
        shown = (
            {step_id: Body(resultSummary=value) for step_id, value in whole.items()}
            if budget is None
            else fitted(whole, budget=budget)
        )
    else:
        shown = await _beginnings(call, plan_id, rows, budget or DETAIL_RESULTS_BUDGET)
    return {row[0]: {**shown.get(row[0], {}), "confidence": row[2]} for row in rows}


async def _beginnings(
    call: Call, plan_id: str, rows: list[tuple[Any, ...]], budget: int
) -> dict[str, Body]:
    sizes: dict[str, int] = {row[0]: row[3] for row in rows}
    share = result_share([*sizes.values()], budget)
    statement = plans.results_cut_statement(plan_id, MAX_BYTES_PER_CHARACTER * share + 2)
    (found,) = await call.read(statement)
    return {
        step_id: _beginning(step_id, text, sizes[step_id], share)
        for step_id, text in found
        if step_id in sizes
    }


def _beginning(step_id: str, text: str | None, size: int, share: int) -> Body:
    """Return a result whole if it is short enough, else its beginning and how much is left."""
    if text is None:
        return {"resultSummary": None}
    if size <= share:
        return {"resultSummary": orjson.loads(text)}
    if not text.startswith('"'):
        piece = text[:share]
        return cut_result(step_id, piece, size - len(piece.encode()))
    piece = decode_beginning(text)[:share]
    return cut_result(step_id, piece, size - len(orjson.dumps(piece)))


def decode_beginning(text: str) -> str:
    r"""Return the text that a cut JSON string begins with.

    >>> decode_beginning('"It rai'), decode_beginning(r'"a\n\u00')
    ('It rai', 'a\n')
    """
    if len(text) > 1 and text.endswith('"') and _is_whole(text):
        return str(orjson.loads(text))
    cut = _HALF_PAIR.sub(r"\1", _CUT_ESCAPE.sub(r"\1", text))
    return str(orjson.loads(f'{cut}"'))


def _is_whole(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
