"""Open reviews, as a person sees them."""

from typing import Any, Literal, NotRequired, TypedDict, cast

from waybook.client.claims import Caller
from waybook.client.replies import JsonValue

PAGE_SIZE = 100
Decision = Literal["approve", "modify", "skip", "reject"]


class OpenReview(TypedDict):
    """Review that waits for a person. `resultSummary` is the result that an approval accepts."""

    planId: str
    planName: str
    reviewId: str
    stepId: str
    stepOrder: int
    summary: str
    questions: list[str]
    requestedAt: str
    requestedBy: str
    reviewUrl: str
    title: NotRequired[str]
    resultSummary: NotRequired[JsonValue]


async def open_reviews(caller: Caller, plan_id: str | None) -> list[OpenReview]:
    plan_ids = await _waiting_plans(caller) if plan_id is None else [plan_id]
    plans = [await caller.call("get_plan_status", planId=each, detail=True) for each in plan_ids]
    reviews = [_review_of(plan) for plan in plans if plan["openReview"]]
    return sorted(reviews, key=lambda review: review["requestedAt"])


async def decide_review(
    caller: Caller, review: OpenReview, decision: Decision, feedback: str | None
) -> dict[str, Any]:
    # The place keeps the step from being assigned to this client.
    named = {"planId": review["planId"], "reviewId": review["reviewId"], "place": "client"}
    more = {} if feedback is None else {"feedback": feedback}
    return await caller.call("submit_user_decision", **named, decision=decision, **more)


async def _waiting_plans(caller: Caller) -> list[str]:
    plan_ids, page = list[str](), dict[str, Any]()
    while not page or page["nextCursor"]:
        more = {"cursor": page["nextCursor"]} if page else {}
        page = await caller.call("list_active_plans", limit=PAGE_SIZE, **more)
        plan_ids += [p["planId"] for p in page["plans"] if p["status"] == "awaiting_review"]
    return plan_ids


def _review_of(plan: dict[str, Any]) -> OpenReview:
    review = plan["openReview"]
    (step,) = (each for each in plan["activeSteps"] if each["stepId"] == review["stepId"])
    described = {name: step[name] for name in ("stepOrder", "title") if name in step}
    named = {"planId": plan["planId"], "planName": plan["name"], "questions": []}
    return cast("OpenReview", {**named, **described, **review})
