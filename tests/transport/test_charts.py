"""Charts of plain numbers, times and labels: valid, bounded, escaped and never out of place."""

import gzip
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.transport.http.html.charts import (
    MAX_TAB_STOPS,
    Column,
    Period,
    Span,
    place_burnup,
)
from waybook.transport.http.html.layout import TEMPLATES

CHARTS: dict[str, Any] = {**TEMPLATES.globals}
columns, lane, time_axis = CHARTS["columns"], CHARTS["lane"], CHARTS["time_axis"]


def burnup(
    done: list[tuple[datetime, float]],
    scope: list[tuple[datetime, float]],
    period: Period,
    label: str,
    *,
    forecast: tuple[datetime, datetime] | None = None,
    what: str = "steps",
) -> str:
    drawn: str = CHARTS["burnup"](place_burnup(done, scope, period, forecast=forecast), label, what)
    return drawn


NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
HOSTILE = "</text><script>alert(1)</script>\"' onload=x <!-- &amp; \u202e"

numbers = st.floats(width=32) | st.integers(-10, 10**20)
times = st.datetimes(timezones=st.just(UTC))
texts = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), max_size=30) | st.just(
    HOSTILE
)
kinds = st.sampled_from(["done", "fail", "run", "wait", "guess", "m1", "plain", "unknown"])
parts = st.lists(st.tuples(kinds, numbers), max_size=3)
periods = st.builds(Period, times, times, st.none() | times)
spans = st.lists(st.builds(Span, times, times, kinds, texts, st.just("") | texts), max_size=8)
points = st.lists(st.tuples(times, numbers), max_size=8)


def parsed(drawn: str) -> list[ET.Element]:
    """Return the elements of a chart, which must be valid XML without styles and scripts."""
    elements = [*ET.fromstring(f"<main>{drawn}</main>").iter()]  # noqa: S314
    for element in elements:
        assert element.tag != "script"
        assert not {name for name in element.attrib if name == "style" or name.startswith("on")}
    return elements


def check_places(drawn: str) -> None:
    """Check that all numbers are finite, sizes not negative, and places within the width."""
    assert not re.search(
        r"\b(nan|inf)\b", re.sub(r'(aria-label|href)="[^"]*"|>[^<]*<', "><", drawn)
    )
    for element in parsed(drawn):
        sizes = {
            name: element.get(name) for name in ("width", "height", "r", "rx", "x", "x1", "cx")
        }
        for value in filter(None, sizes.values()):
            assert float(value.rstrip("%")) >= 0, (element.tag, element.attrib)
        at, width = sizes["x"] or "", sizes["width"] or ""
        if at.endswith("%") and width.endswith("%"):
            assert float(at[:-1]) + float(width[:-1]) <= 100.1


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=30), texts)
def test_small_charts_of_any_numbers_stay_in_place(values: list[int], label: str) -> None:
    check_places(CHARTS["spark"](values, label))
    named = {f"{number} {label}": value for number, value in enumerate(values)}
    check_places(CHARTS["strip"](named, label))


@given(st.lists(st.builds(Column, texts, parts, texts, texts), max_size=6), texts, numbers)
def test_columns_of_any_numbers_stay_in_place(items: list[Column], label: str, top: float) -> None:
    check_places(columns(items, label))
    check_places(columns(items, label, height=196, line=(top, label)))


@given(spans, periods, texts)
def test_spans_of_any_times_stay_in_place(drawn: list[Span], period: Period, label: str) -> None:
    for chart in (lane(drawn, period, label), time_axis(period)):
        check_places(chart)


@given(points, points, periods, st.none() | st.tuples(times, times), texts)
def test_burnup_of_any_points_stays_in_place(
    done: list[tuple[datetime, float]],
    scope: list[tuple[datetime, float]],
    period: Period,
    forecast: tuple[datetime, datetime] | None,
    label: str,
) -> None:
    check_places(burnup(done, scope, period, label, forecast=forecast))


def many_spans(count: int) -> list[Span]:
    start = NOON - timedelta(hours=1)
    gap = timedelta(hours=1) / count
    return [
        Span(start + n * gap, start + (n + 1) * gap, "fail" if n == 500 else "done", f"job {n}")
        for n in range(count)
    ]


HOUR = Period(NOON - timedelta(hours=1), NOON + timedelta(hours=1), NOON)
LONG: dict[str, Callable[[], str]] = {
    "columns": lambda: columns(
        [
            Column(f"day {n}", [("m1", n), ("m2", 3)], f"day {n}: {n}", f"/?d={n}")
            for n in range(1000)
        ],
        "cost",
    ),
    "lane": lambda: lane(many_spans(1000), HOUR, "agent"),
    "burnup": lambda: burnup(
        [(NOON - timedelta(seconds=1000 - n), n) for n in range(1000)], [(NOON, 1000)], HOUR, "done"
    ),
}


@pytest.mark.parametrize("name", LONG)
def test_chart_of_a_thousand_rows_is_small(name: str) -> None:
    drawn = LONG[name]()
    assert len(gzip.compress(drawn.encode())) < 6_000
    stops = [e for e in parsed(drawn) if e.get("tabindex") == "0"]
    assert len(stops) <= MAX_TAB_STOPS


def test_merged_spans_keep_the_failure() -> None:
    marks = [e.get("data-s") for e in parsed(lane(many_spans(1000), HOUR, "agent"))]
    assert marks.count("fail") == 1


def test_spans_at_the_same_time_are_below_each_other() -> None:
    begins = (-50, -40, -20, 0)
    spans = [
        Span(NOON + timedelta(minutes=m), NOON + timedelta(minutes=m + 25), "run") for m in begins
    ]
    drawn = parsed(lane(spans, HOUR, "model"))
    assert [e.get("y") for e in drawn if e.tag == "rect"] == ["8", "32", "8", "32"]
    assert drawn[1].get("height") == "60"


def test_names_in_charts_are_escaped() -> None:
    span = Span(NOON - timedelta(minutes=9), NOON, "run", HOSTILE, HOSTILE)
    for drawn in (
        columns([Column(HOSTILE, [("m1", 1)], HOSTILE, HOSTILE)], HOSTILE, line=(2, HOSTILE)),
        lane([span], HOUR, HOSTILE),
        burnup([(NOON, 1)], [(NOON, 2)], HOUR, HOSTILE, what=HOSTILE),
    ):
        assert "<script" not in drawn
        assert HOSTILE in {
            *"".join(t for e in parsed(drawn) for t in (e.text or "", "\n")).split("\n")
        } | {value for e in parsed(drawn) for value in e.attrib.values()}


def test_columns_have_an_axis_with_values_and_a_limit() -> None:
    days = [
        Column(f"Nov {n}", [("m1", n), ("m2", 1)], f"Nov {n}: ${n + 1}", f"/?d={n}")
        for n in range(1, 9)
    ]
    drawn = columns(days, "Cost by day", height=196, show="${:,}".format, line=(8, "budget"))
    elements = parsed(drawn)
    words = [e.text for e in elements if e.tag == "text"]
    assert {"$10", "$5", "budget", "Nov 1"} <= {*words}
    assert [e.get("aria-label") for e in elements if e.tag == "a"] == [day.text for day in days]
    bars = [float(e.get("height", "")) for e in elements if e.get("class") == "m1"]
    assert bars == sorted(bars)
    assert bars[-1] == pytest.approx(8 / 10 * (196 - 18 - 16) - 1, abs=0.1)


def test_line_of_now_is_at_the_same_place_in_every_row() -> None:
    for drawn in (lane([], HOUR, "agent"), time_axis(HOUR)):
        assert 'x1="50%"' in drawn or 'x="50%"' in drawn
    past = Period(HOUR.start, NOON, NOON + timedelta(hours=3))
    assert "now" not in lane([], past, "agent") + time_axis(past)


def test_cone_of_the_forecast_reaches_the_scope_at_both_ends() -> None:
    period = Period(NOON, NOON + timedelta(hours=4), NOON + timedelta(hours=1))
    done = [(NOON, 0.0), (NOON + timedelta(minutes=30), 4.0)]
    ends = (NOON + timedelta(hours=2), NOON + timedelta(hours=3))
    drawn = burnup(done, [(NOON, 8.0)], period, "4 of 8 steps", forecast=ends)
    fan = next(e.get("d") for e in parsed(drawn) if e.get("class") == "fan")
    assert fan == "M25 55.36L50 10.71H75Z"
    assert "Jan 2, 12:30: 4 of 8 steps" in drawn
