"""Event bus: delivery to subscribers, missed events, and events of other processes."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patience import PATIENCE_SECONDS
from waybook.core.events import ChangeEvent
from waybook.store.driver.bus import (
    ALL_TOPICS,
    MAX_QUEUED,
    MAX_REPLAYED,
    MAX_TOPICS,
    Bus,
    ChangeFeed,
    event_topics,
    merge_events,
)

OURS, THEIRS = UUID(int=1), UUID(int=2)


def change_event(number: int = 1, version: int = 1, *, list_changed: bool = False) -> ChangeEvent:
    return ChangeEvent("plan", str(UUID(int=number)), version, list_changed)


def topics(number: int = 1) -> tuple[str, ...]:
    return (f"plan:{UUID(int=number)}", "plans")


@pytest.fixture
def bus() -> Bus:
    return Bus()


@contextmanager
def listening(bus: Bus, org_id: UUID = OURS, since: str = "") -> Iterator[ChangeFeed]:
    feed = ChangeFeed()
    with bus.subscription(org_id, feed, since):
        yield feed


async def test_subscriber_receives_only_events_of_the_same_org(bus: Bus) -> None:
    with listening(bus) as ours, listening(bus, THEIRS) as theirs:
        bus.publish(OURS, change_event())
        bus.receive(OURS, change_event(2, list_changed=True))
        assert await ours.read(PATIENCE_SECONDS) == (*topics(), topics(2)[0], "inbox")
        assert theirs.take() == ()
    bus.publish(OURS, change_event(3))
    assert ours.take() == ()
    assert bus.subscribed_orgs() == []


async def test_reading_a_subscription_waits_for_an_event_or_the_timeout(bus: Bus) -> None:
    with listening(bus) as feed:
        assert await feed.read(0) == ()
        reading = asyncio.create_task(feed.read(PATIENCE_SECONDS))
        await asyncio.sleep(0)
        bus.publish(OURS, change_event())
        assert await reading == topics()
        assert feed.take() == ()


def test_event_bus_does_not_deliver_the_same_plan_version_twice(bus: Bus) -> None:
    with listening(bus) as feed:
        bus.publish(OURS, change_event(version=3))
        assert feed.take() == topics()
        bus.receive(OURS, change_event(version=3))
        bus.receive(OURS, change_event(version=2))
        assert feed.take() == ()
        bus.receive(OURS, change_event(version=4))
        assert feed.take() == topics()


def test_subscriber_with_too_many_unread_events_must_reload_everything(bus: Bus) -> None:
    with listening(bus) as slow, listening(bus) as other:
        for number in range(MAX_TOPICS):
            bus.publish(OURS, change_event(number))
            other.take()
        bus.publish(OURS, change_event(MAX_TOPICS))
        assert slow.take() == (ALL_TOPICS,)
        assert other.take() == topics(MAX_TOPICS)
        bus.publish(OURS, change_event())
        assert slow.take() == topics()


def test_subscriber_with_known_event_number_gets_all_later_events(bus: Bus) -> None:
    bus.publish(OURS, change_event())
    seen = bus.position(OURS)
    bus.publish(THEIRS, change_event(2))
    bus.publish(OURS, change_event(3))
    bus.publish(THEIRS, change_event(4))
    with listening(bus, since=seen) as feed:
        assert feed.take() == topics(3)
    with listening(bus, since=bus.position(OURS)) as feed:
        assert feed.take() == ()


def test_subscriber_with_unknown_event_number_must_reload_everything(bus: Bus) -> None:
    seen = bus.position(OURS)
    for number in range(MAX_REPLAYED + 1):
        bus.publish(OURS, change_event(number))
    sender = bus.sender
    lost = (
        seen,
        Bus().position(OURS),
        f"{sender}.{10**30}",
        f"{sender}.x",
        f"{sender}.²",
        "nonsense",
    )
    for since in lost:
        with listening(bus, since=since) as feed:
            assert feed.take() == (ALL_TOPICS,), since
    with listening(bus, since=f"{sender}.1") as feed:
        assert feed.take() == (ALL_TOPICS,)


def test_events_for_other_processes_are_merged_per_plan_and_limited(bus: Bus) -> None:
    bus.publish(OURS, change_event(1, 1, list_changed=True))
    bus.publish(OURS, change_event(1, 2))
    bus.publish(THEIRS, change_event(1, 1))
    assert bus.has_outgoing.is_set()
    assert bus.take_outgoing() == {
        OURS: [change_event(1, 2, list_changed=True)],
        THEIRS: [change_event()],
    }
    assert not bus.has_outgoing.is_set()
    for number in range(MAX_QUEUED + 1):
        bus.publish(OURS, change_event(number))
    assert len(bus.take_outgoing()[OURS]) == MAX_QUEUED


async def test_closing_the_event_bus_ends_current_and_later_subscriptions(bus: Bus) -> None:
    with listening(bus) as feed:
        bus.publish(OURS, change_event())
        bus.close()
        assert await feed.read(PATIENCE_SECONDS) == topics()
        assert feed.has_ended
    with listening(bus) as late:
        assert late.has_ended
    assert bus.is_closed


def test_invalidating_an_org_makes_only_subscribers_of_this_org_reload(bus: Bus) -> None:
    with listening(bus) as ours, listening(bus, THEIRS) as theirs:
        bus.invalidate(OURS)
        assert ours.take() == (ALL_TOPICS,)
        assert theirs.take() == ()


def test_subscriber_must_reload_if_the_bus_forgot_event_numbers_of_the_org(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = bus.position(OURS)
    monkeypatch.setattr("waybook.store.driver.bus.MAX_TRACKED_ORGS", 1)
    bus.publish(THEIRS, change_event())
    bus.publish(OURS, change_event(2))
    with listening(bus, since=seen) as feed:
        assert feed.take() == (ALL_TOPICS,)


@given(
    version=st.integers(0, 2**31 - 1),
    other_version=st.integers(0, 2**31 - 1),
    listed=st.booleans(),
    other_listed=st.booleans(),
)
def test_merged_event_has_the_newest_version_and_all_topics(
    version: int, other_version: int, *, listed: bool, other_listed: bool
) -> None:
    event = change_event(version=version, list_changed=listed)
    other = change_event(version=other_version, list_changed=other_listed)
    merged = merge_events(event, other)
    assert merged == merge_events(other, event)
    assert merged.version == max(version, other_version)
    assert set(event_topics(merged)) == {*event_topics(event), *event_topics(other)}
    assert merge_events(None, event) is event
