"""A letter of each kind, as it could be: to try templates with, and for who wants to see one."""

from collections.abc import Mapping
from types import MappingProxyType

from waybook.record.moment import Json
from waybook.record.notice import NotificationKind

_ID = "0190b2f0-0000-7000-8000-00000000000"
_PLAN: dict[str, Json] = {
    "planId": f"{_ID}1",
    "planName": "Rivers",
    "progress": {"percent": 50, "done": 2, "total": 4},
    "url": f"http://127.0.0.1:8750/plans/{_ID}1",
}
_RUN: dict[str, Json] = {
    "runId": f"{_ID}2",
    "runName": "Rivers",
    "dagSlug": "deep-research",
    "progress": {"completedStages": 1, "totalStages": 3},
    "url": f"http://127.0.0.1:8750/runs/{_ID}2",
}
_STEP: dict[str, Json] = {"stepId": f"{_ID}3", "stepOrder": 2, "stepTitle": "Compare them"}
_STAGE: dict[str, Json] = {"stageSlug": "survey", "stageName": "Survey"}
_REVIEW: dict[str, Json] = {
    **_STEP,
    "reviewId": f"{_ID}4",
    "summary": "The longest is the Nile; sources differ.",
    "questions": 1,
}

DATA: Mapping[NotificationKind, dict[str, Json]] = MappingProxyType(
    {
        NotificationKind.REVIEW_REQUESTED: {
            **_PLAN,
            "status": "awaiting_review",
            "review": _REVIEW,
            "reviewUrl": f"{_PLAN['url']}#review",
        },
        NotificationKind.PLAN_STALLED: {**_PLAN, "status": "stalled", "steps": [_STEP]},
        NotificationKind.PLAN_COMPLETED: {**_PLAN, "status": "completed", "outcome": "completed"},
        NotificationKind.PLAN_FAILED: {**_PLAN, "status": "failed", "outcome": "failed"},
        NotificationKind.AWAITING_FEEDBACK: {**_RUN, **_STAGE},
        NotificationKind.STAGE_FAILED: {**_RUN, **_STAGE, "failedSteps": ["compare"]},
        NotificationKind.RUN_COMPLETED: _RUN,
        NotificationKind.TEST: {"url": "http://127.0.0.1:8750"},
    }
)
_WHO: dict[str, Json] = {"orgId": f"{_ID}0", "by": {"user": "ann", "channel": "mcp"}}


def sample_payload(occasion: NotificationKind) -> dict[str, Json]:
    """A payload of this kind."""
    data = {**_WHO, **DATA[occasion]}
    return {"type": str(occasion), "timestamp": "2030-01-01T12:00:00+00:00", "data": data}
