from datetime import UTC, datetime

from waybook.core.changes import Change, Entity, Event, as_json
from waybook.plan.model import StepStatus


def test_audit_events_are_exactly_the_eight_documented_events() -> None:
    assert [str(event) for event in Event] == [
        *("step_started", "step_completed", "step_failed", "plan_modified", "user_reviewed"),
        *("session_resumed", "skill_started", "skill_completed"),
    ]


def test_json_of_a_change_contains_old_and_new_value() -> None:
    change = Change(Entity.STEP, "s1", "status", "pending", "in_progress")
    assert change.as_json() == {
        "entity": "step",
        "id": "s1",
        "field": "status",
        "from": "pending",
        "to": "in_progress",
    }


def test_audit_changes_convert_times_enums_and_tuples_to_json() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert as_json((noon, StepStatus.FAILED, None, {"a": [1]})) == [
        "2030-01-01T12:00:00+00:00",
        "failed",
        None,
        {"a": [1]},
    ]
