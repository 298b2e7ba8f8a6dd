"""The cost page: what the org spends in a period, by model, agent or workflow."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from starlette.responses import Response

from waybook.app.queries.inbox import count_pending
from waybook.app.queries.timeline import csv_text
from waybook.app.queries.usage import (
    MAX_PARTS,
    CostFilter,
    Costs,
    Row,
    count_costs,
    export_costs,
)
from waybook.core.usage import DOLLAR, Totals, format_cost, to_dollars
from waybook.errors import InvalidInput
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.http.html.charts import Column
from waybook.transport.http.requests import file_headers

#: Offered periods, with their number of hours or days including the current one.
_RANGES: Final = {"24h": timedelta(hours=23), "7d": timedelta(days=6), "30d": timedelta(days=29)}
_MAX_LENGTH: Final = timedelta(days=3 * 366)
_MIN_YEAR: Final = 2000
_BY: Final = ("model", "agent", "workflow")
_STEPS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
_UNNAMED: Final = {"model": "not reported", "agent": "", "workflow": "plans"}
_COLUMNS: Final = ("costUsd", "inputTokens", "outputTokens", "results")


async def cost_page(page: PageRequest) -> Response:
    ctx = await page.context()
    wanted = _filter(page, (await count_pending(ctx)).now)
    costs = await count_costs(ctx, wanted)
    has_cost, budget = bool(costs.org.usage.cost_micros), _budget(page)
    names = {row.place: _part_name(wanted.by, row) for row in costs.times}
    limit = budget * (_STEPS[wanted.unit] / timedelta(days=1))
    return await page.render(
        "cost",
        costs=costs,
        wanted=wanted,
        has_cost=has_cost,
        columns_of_time=_columns(page, wanted, costs, names, has_cost=has_cost),
        names=sorted(names.items()),
        line=(limit, f"budget {format_cost(round(limit))}") if limit and has_cost else None,
        ranges={name: page.url_with(range=name, **{"from": None, "to": None}) for name in _RANGES},
        range=None if page.query("from") or page.query("to") else page.query("range") or "30d",
        splits={by: page.url_with(by=by) for by in _BY},
        file="/cost.csv?" + page.url_with().partition("?")[2],
    )


async def cost_export(page: PageRequest) -> Response:
    ctx = await page.context()
    wanted = _filter(page, (await count_pending(ctx)).now)
    rows = [
        (
            row.start.astimezone(UTC).isoformat(),
            row.part,
            str(to_dollars(row.usage.cost_micros)),
            *map(str, (row.usage.input_tokens, row.usage.output_tokens, row.usage.results)),
        )
        for row in await export_costs(ctx, wanted)
    ]
    headers = file_headers(f"cost-by-{wanted.by}.csv", "text/csv; charset=utf-8")
    return Response(csv_text([("start", wanted.by, *_COLUMNS), *rows]), headers=headers)


def _filter(page: PageRequest, now: datetime) -> CostFilter:
    by, name = page.choice("by", _BY, "model"), page.choice("range", _RANGES, "30d")
    now = now.astimezone(UTC)
    today = datetime.combine(now.date(), time(), UTC)
    start = now.replace(minute=0, second=0, microsecond=0) if name == "24h" else today
    since, until = start - _RANGES[name], None
    if text := page.query("to"):
        until = min(_day(text), today) + timedelta(days=1)
        since = until - timedelta(days=30)
    if text := page.query("from"):
        since = _day(text)
    if not since < (until or now) <= since + _MAX_LENGTH:
        raise InvalidInput("choose a first day that is in the past, and at most three years")
    return CostFilter(since, until, now, by)


def _day(text: str) -> datetime:
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if day.year >= _MIN_YEAR:
            return datetime.combine(day, time(), UTC)
    raise InvalidInput(f"“{text}” is not a day since {_MIN_YEAR}; write it like 2030-01-31")


def _budget(page: PageRequest) -> float:
    """Return the budget of a day in the address, in millionths of a dollar."""
    text = page.query("budget") or "0"
    if not text.replace(".", "", 1).isdecimal() or len(text) > len("123456789.00"):
        raise InvalidInput("write the budget of a day in dollars, like 12.50")
    return float(text) * DOLLAR


def _part_name(by: str, row: Row) -> str:
    return "others" if row.place == MAX_PARTS else row.part or _UNNAMED[by]


def _columns(
    page: PageRequest, wanted: CostFilter, costs: Costs, names: dict[int, str], *, has_cost: bool
) -> list[Column]:
    """Return a column for each hour, day or week of the period."""
    by_start: dict[datetime, list[Row]] = {}
    for row in costs.times:
        by_start.setdefault(row.start.astimezone(UTC), []).append(row)
    step, at = _STEPS[wanted.unit], wanted.since
    if wanted.unit == "week":
        at -= timedelta(days=at.weekday())
    shown = []
    while at <= wanted.now and (wanted.until is None or at < wanted.until):
        label = f"{at:%H:%M}" if wanted.unit == "hour" else f"{at:%b} {at.day}"
        rows = by_start.get(at, [])
        parts = [(f"m{row.place}", _value(row.usage, has_cost=has_cost)) for row in rows]
        day = f"{at:%Y-%m-%d}"
        url = page.url_with(range=None, **{"from": day, "to": day}) if wanted.unit == "day" else ""
        shown.append(Column(label, parts, _words(label, rows, names, has_cost=has_cost), url))
        at += step
    return shown


def _value(usage: Totals, *, has_cost: bool) -> int:
    """Return the height of a column: its cost or, if nothing in the period has a cost, tokens."""
    return usage.cost_micros if has_cost else usage.tokens


def _words(label: str, rows: Sequence[Row], names: dict[int, str], *, has_cost: bool) -> str:
    def show(value: int) -> str:
        return format_cost(value) if has_cost else f"{value:,} tokens"

    values = {names[row.place]: _value(row.usage, has_cost=has_cost) for row in rows}
    parts = ", ".join(f"{name} {show(value)}" for name, value in values.items())
    return f"{label}: {show(sum(values.values()))}" + (f" ({parts})" if len(values) > 1 else "")
