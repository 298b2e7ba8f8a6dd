"""Outputs of plans, which can also be stored after completion: versions and media types."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan_builders import ANN, changes_of, events_of, make_context, make_plan, make_step
from waybook.core.changes import text_hash
from waybook.errors import InvalidInput, PlanTerminal, TooLarge
from waybook.plan.model import MAX_OUTPUTS, Output, Plan, PlanStatus, StepStatus
from waybook.plan.progress import latest
from waybook.plan.store_output import (
    NewOutput,
    latest_version,
    store_output,
)

REPORT = NewOutput(media_type="text/markdown", title="Rivers", content="# Rivers")


def make_plan_in(status: PlanStatus) -> Plan:
    done = {PlanStatus.COMPLETED: StepStatus.COMPLETED, PlanStatus.FAILED: StepStatus.FAILED}
    plan = make_plan(make_step(done.get(status, StepStatus.PENDING)))
    return plan._replace(status=status, sessions=frozenset({"a"}))


COMPLETE = make_plan_in(PlanStatus.COMPLETED)


@pytest.mark.parametrize("status", [s for s in PlanStatus if s is not PlanStatus.FAILED])
def test_output_can_be_stored_in_any_plan_status_except_failed(status: PlanStatus) -> None:
    plan = make_plan_in(status)
    decided = store_output(plan, REPORT, [], make_context())
    assert events_of(decided) == ["plan_modified"]
    assert decided.plan == plan._replace(seq=plan.seq + 1)
    (change,) = changes_of(decided)
    assert change.entity == "artifact"
    assert decided.entries[0].details == {
        "action": "output_stored",
        "artifactId": change.id,
        "title": "Rivers",
        "mediaType": "text/markdown",
        "version": 1,
    }


def test_failed_plan_stores_no_output() -> None:
    with pytest.raises(PlanTerminal):
        store_output(make_plan_in(PlanStatus.FAILED), REPORT, [], make_context())


@pytest.mark.parametrize("text", ["{", "NaN", "[1,]", "", "[" * 100_000, "9" * 5_000])
def test_json_output_with_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        store_output(
            COMPLETE,
            replace(REPORT, media_type="application/json", content=text),
            [],
            make_context(),
        )
    assert refused.value.details["argument"] == "content"


def test_too_many_outputs_are_refused() -> None:
    (output,) = stored(REPORT)
    full = [output._replace(version=n) for n in range(1, MAX_OUTPUTS + 1)]
    with pytest.raises(TooLarge):
        store_output(COMPLETE, replace(REPORT, content="# More"), full, make_context())
    assert not store_output(COMPLETE, REPORT, full, make_context()).reply.is_new


def test_storing_output_records_new_session_only_on_open_plan() -> None:
    open_plan = make_plan_in(PlanStatus.EXECUTING)._replace(sessions=frozenset(), seq=3)
    assert ANN.session == "a"
    noted = store_output(open_plan, REPORT, [], make_context())
    assert events_of(noted) == ["session_resumed", "plan_modified"]
    closed = COMPLETE._replace(sessions=frozenset(), seq=3)
    assert events_of(store_output(closed, REPORT, [], make_context())) == ["plan_modified"]


def stored(*handed_in: NewOutput) -> list[Output]:
    """Store these outputs one after the other; return those that are new versions."""
    there: list[Output] = []
    for minutes, new in enumerate(handed_in):
        reply = store_output(COMPLETE, new, there, make_context(minutes=minutes)).reply
        there += [reply.output] if reply.is_new else []
    return there


@given(
    st.lists(
        st.builds(
            NewOutput,
            media_type=st.sampled_from(["text/plain", "text/html"]),
            title=st.sampled_from(["A", "B"]),
            content=st.sampled_from(["x", "y"]),
        ),
        max_size=12,
    )
)
def test_output_versions_have_no_gaps(handed_in: list[NewOutput]) -> None:
    there = stored(*handed_in)
    for title in {output.title for output in there}:
        versions = [output.version for output in there if output.title == title]
        assert versions == list(range(1, len(versions) + 1))
    last = {(new.title, new.media_type): new.content for new in handed_in}
    shown = {(output.title, output.media_type): output.content_hash for output in latest(there)}
    assert shown == {form: text_hash(content) for form, content in last.items()}
    for title, media_type in last:
        assert latest_version(there, title=title, media_type=media_type) in latest(there)
