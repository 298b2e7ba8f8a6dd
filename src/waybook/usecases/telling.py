"""Notices, written with the change they tell of, where somebody is to be told."""

from collections.abc import Iterable

from waybook.plan.model import Plan
from waybook.plan.notices import plan_notices
from waybook.record.moment import Json
from waybook.record.notice import Notice, Occasion
from waybook.run.model import Chart, Run
from waybook.run.notices import run_notices
from waybook.store import deliveries
from waybook.store.ids import new_id
from waybook.store.ledger import Hand
from waybook.store.sql import Statement
from waybook.usecases.exchange import Caller
from waybook.usecases.house import House
from waybook.usecases.links import plan_url, review_url, run_url


def told_of_plan(
    house: House, caller: Caller, before: Plan, after: Plan, hand: Hand
) -> list[Statement]:
    """The statements that tell of what became of a plan."""
    if not house.tells:
        return []
    return _statements(house, caller, plan_notices(before, after), hand)


def told_of_run(
    house: House, caller: Caller, before: Run | None, after: Run, chart: Chart, hand: Hand
) -> list[Statement]:
    """The statements that tell of what became of a run."""
    if not house.tells:
        return []
    return _statements(house, caller, run_notices(before, after, chart), hand)


def statement_of(house: House, caller: Caller, notice: Notice, hand: Hand) -> tuple[str, Statement]:
    """The statement that tells of one thing, and the id it is told under."""
    letter_id = new_id()
    data = {**_about(house, caller, notice, hand), **notice.data}
    kept = deliveries.insert_statement(letter_id, notice._replace(data=data), hand.now)
    return letter_id, kept


def _statements(
    house: House, caller: Caller, notices: Iterable[Notice], hand: Hand
) -> list[Statement]:
    return [
        statement_of(house, caller, notice, hand)[1]
        for notice in notices
        if notice.occasion in house.tells
    ]


def _about(house: House, caller: Caller, notice: Notice, hand: Hand) -> dict[str, Json]:
    actor = hand.actor
    about: dict[str, Json] = {
        "orgId": str(caller.org_id),
        "by": {"user": actor.user, "channel": str(actor.channel)},
    }
    place, subject = house.base_url, notice.subject_id
    if not subject:
        return {**about, "url": place}
    if notice.occasion is Occasion.REVIEW_REQUESTED:
        about["reviewUrl"] = review_url(subject, place)
    is_plan = notice.occasion.startswith("plan.")
    return {**about, "url": plan_url(subject, place) if is_plan else run_url(subject, place)}
