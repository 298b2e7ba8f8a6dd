"""Change events between processes."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from waybook.core.events import (
    MAX_PAYLOAD_BYTES,
    ChangeEvent,
    decode_batch,
    encode_batches,
    event_topics,
    merge_events,
)

NEWS = st.builds(
    ChangeEvent,
    st.sampled_from(["plan", "run"]),
    st.uuids().map(str),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)


@given(st.uuids(), st.lists(NEWS, max_size=300))
def test_encode_batches_round_trip_stays_within_max_payload(
    org_id: UUID, news: list[ChangeEvent]
) -> None:
    letters = list(encode_batches("0a1b2c3d", org_id, news))
    assert all(0 < len(message.encode()) <= MAX_PAYLOAD_BYTES for message in letters)
    packets = [packet for message in letters if (packet := decode_batch(message))]
    assert [event for packet in packets for event in packet.events] == news
    assert all((p.sender, p.org_id) == ("0a1b2c3d", org_id) for p in packets)
    assert len(packets) == len(letters)


@given(st.text())
def test_decode_batch_ignores_arbitrary_text(text: str) -> None:
    assert decode_batch(text) is None
    sound = f"0a1b2c3d {UUID(int=7)} plan:{UUID(int=8)}:3!"
    packet = decode_batch(f"{sound} {text}")
    assert packet is not None
    assert packet.events[0] == ChangeEvent("plan", str(UUID(int=8)), 3, list_changed=True)


def test_decode_batch_invalid_org_id_returns_none() -> None:
    assert decode_batch("0a1b2c3d ------------------------------------ run:1:1") is None


@given(NEWS, NEWS)
def test_merge_events_same_plan_keeps_max_version_and_all_topics(
    news: ChangeEvent, later: ChangeEvent
) -> None:
    version = later.version
    other = news._replace(version=version, list_changed=later.list_changed)
    both = merge_events(news, other)
    assert both == merge_events(other, news)
    assert both.version == max(news.version, version)
    assert set(event_topics(both)) == {*event_topics(news), *event_topics(other)}
    assert merge_events(None, news) is news
