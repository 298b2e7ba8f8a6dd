"""Progress bars have segments that add up to their width, and timelines fit the width."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from waybook.app.queries.plans.plan import StepStatusChange
from waybook.app.queries.timeline import Axis, Span, spans_of, time_spent
from waybook.cli.terminal.bars import cell_counts, segmented_bar
from waybook.cli.terminal.plan_board import timeline_bar
from waybook.plan.model import StepStatus

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
COUNTS = st.dictionaries(st.sampled_from(StepStatus), st.integers(0, 300))


def minutes(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


@given(COUNTS, st.integers(6, 200))
def test_progress_bar_has_the_requested_width(counts: dict[StepStatus, int], width: int) -> None:
    assert segmented_bar(counts, width).cell_len == width


@given(COUNTS, st.integers(6, 200))
def test_progress_bar_shows_every_status_in_at_least_one_cell(
    counts: dict[StepStatus, int], width: int
) -> None:
    cells = cell_counts(counts, width)
    assert all(cells[status] >= 1 for status, count in counts.items() if count)


def test_terminal_timeline_separates_work_from_waiting_for_review() -> None:
    moves = [
        StepStatusChange("a", minutes(0), StepStatus.IN_PROGRESS, "ann", None),
        StepStatusChange("a", minutes(5), StepStatus.FAILED, "ann", None),
        StepStatusChange("a", minutes(5), StepStatus.PENDING, "ann", None),
        StepStatusChange("a", minutes(8), StepStatus.IN_PROGRESS, "ann", None),
        StepStatusChange("a", minutes(9), StepStatus.AWAITING_INPUT, "ann", None),
        StepStatusChange("a", minutes(20), StepStatus.COMPLETED, "ann", None),
        StepStatusChange("b", minutes(30), StepStatus.IN_PROGRESS, "ann", None),
    ]
    spans = spans_of(moves, minutes(32))
    assert spans["a"] == [
        Span(minutes(0), minutes(5), StepStatus.FAILED),
        Span(minutes(8), minutes(9), StepStatus.COMPLETED),
        Span(minutes(9), minutes(20), StepStatus.AWAITING_INPUT),
    ]
    assert spans["b"] == [Span(minutes(30), minutes(32), StepStatus.IN_PROGRESS)]
    assert time_spent(spans["a"]) == timedelta(minutes=6)


def test_terminal_timeline_shortens_a_long_pause() -> None:
    monday = Span(minutes(0), minutes(10), StepStatus.COMPLETED)
    thursday = Span(minutes(4000), minutes(4010), StepStatus.COMPLETED)
    axis = Axis([monday, thursday])
    assert timeline_bar([monday], axis, 22).plain == "━" * 10
    assert timeline_bar([thursday], axis, 22).plain == " " * 12 + "━" * 9


SPANS = st.lists(
    st.builds(
        lambda start, length, status: Span(minutes(start), minutes(start + length), status),
        st.floats(0, 10_000),
        st.floats(0, 500),
        st.sampled_from(StepStatus),
    ),
    min_size=1,
)


@given(SPANS, st.integers(1, 120))
def test_terminal_timeline_shows_every_time_span(spans: list[Span], width: int) -> None:
    axis = Axis(spans)
    for span in spans:
        line = timeline_bar([span], axis, width).plain
        assert 1 <= len(line.strip()) <= len(line) <= width
