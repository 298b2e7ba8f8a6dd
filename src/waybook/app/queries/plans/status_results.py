"""Results of a plan's steps, cut so that they fit into a reply."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import orjson

from waybook.app.request.reply import (
    DETAIL_RESULTS_BUDGET,
    MAX_BYTES_PER_CHARACTER,
    cut_result,
    result_share,
    truncate_results,
)
from waybook.app.request.request_context import RequestContext
from waybook.json_values import Body, Json
from waybook.store.plans import load
from waybook.store.plans.rows import ResultRow

#: Length of the longest escape sequence in a JSON string.
_ESCAPE_LENGTH: Final = len(r"\u0000")
_HALF_PAIR: Final = re.compile(r"\\u[dD][89abAB]")


async def shown_results(
    ctx: RequestContext, plan_id: str, rows: Sequence[ResultRow], most: int, budget: int | None
) -> dict[str, Body]:
    """Return the result and confidence of each step. Results are cut to fit into `budget`."""
    if sum(row.octets for row in rows) <= most:
        results: dict[str, Json] = {row.step_id: row.result for row in rows}
        shown = (
            {step_id: Body(resultSummary=value) for step_id, value in results.items()}
            if budget is None
            else truncate_results(results, budget=budget)
        )
    else:
        sizes = {row.step_id: row.octets for row in rows}
        share = result_share([*sizes.values()], budget or DETAIL_RESULTS_BUDGET)
        most_bytes = MAX_BYTES_PER_CHARACTER * share + 2
        (prefixes,) = await ctx.read(load.SQL["results_cut"](plan_id=plan_id, most=most_bytes))
        shown = {
            row.step_id: _beginning(row.step_id, row.beginning, sizes[row.step_id], share)
            for row in prefixes
            if row.step_id in sizes
        }
    return {
        row.step_id: {**shown.get(row.step_id, {}), "confidence": row.confidence} for row in rows
    }


def _beginning(step_id: str, text: str | None, size: int, share: int) -> Body:
    """Return a result or, if the result is long, its beginning and the length of the rest."""
    if text is None:
        return {"resultSummary": None}
    if size <= share or (len(text) <= share and len(text.encode()) >= size):
        return {"resultSummary": orjson.loads(text)}
    if not text.startswith('"'):
        piece = text[:share]
        return cut_result(step_id, piece, size - len(piece.encode()))
    piece = decode_beginning(text)[:share]
    return cut_result(step_id, piece, size - len(orjson.dumps(piece)))


def decode_beginning(text: str) -> str:
    r"""Return the decoded beginning of a truncated JSON string.

    >>> decode_beginning('"It rai'), decode_beginning(r'"a\n\u00')
    ('It rai', 'a\n')
    """
    if len(text) > 1 and text.endswith('"'):
        with suppress(orjson.JSONDecodeError):
            return str(orjson.loads(text))
    cut = _without_cut_escape(text)
    return str(orjson.loads(f'{cut}"'))


def _without_cut_escape(text: str) -> str:
    """Remove an incomplete escape sequence from the end of a JSON text."""
    at = text.rfind("\\", len(text) - _ESCAPE_LENGTH)
    run = len(text[: at + 1]) - len(text[: at + 1].rstrip("\\"))
    if at < 0 or run % 2 == 0:
        return text
    length = _ESCAPE_LENGTH if text[at + 1 : at + 2] == "u" else 2
    if len(text) - at < length:
        return _without_cut_escape(text[:at])
    is_last = len(text) - at == length
    return text[:at] if is_last and _HALF_PAIR.match(text, at) else text
