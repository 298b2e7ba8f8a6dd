"""Encoding of change events that one process sends to another."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from waybook.core.events import MAX_PAYLOAD_BYTES, ChangeEvent, decode_batch, encode_batches
from waybook.core.ids import encode_id

EVENTS = st.builds(
    ChangeEvent,
    st.sampled_from(["plan", "run"]),
    st.integers(0, 31**11 - 1).map(encode_id),
    st.integers(0, 2**31 - 1),
    st.booleans(),
)


@given(st.uuids(), st.lists(EVENTS, max_size=300))
def test_encoded_change_events_fit_the_limit_and_decode_unchanged(
    org_id: UUID, events: list[ChangeEvent]
) -> None:
    payloads = list(encode_batches("0a1b2c3d", org_id, events))
    assert all(0 < len(payload.encode()) <= MAX_PAYLOAD_BYTES for payload in payloads)
    batches = [batch for payload in payloads if (batch := decode_batch(payload))]
    assert [event for *_, decoded in batches for event in decoded] == events
    assert all(batch[:2] == ("0a1b2c3d", org_id) for batch in batches)
    assert len(batches) == len(payloads)


@given(st.text())
def test_arbitrary_text_decodes_to_no_change_events(text: str) -> None:
    assert decode_batch(text) is None
    valid = f"0a1b2c3d {UUID(int=7)} plan:{encode_id(8)}:3!"
    batch = decode_batch(f"{valid} {text}")
    assert batch is not None
    assert batch[2][0] == ChangeEvent("plan", encode_id(8), 3, list_changed=True)


def test_change_events_with_an_invalid_org_id_are_ignored() -> None:
    assert decode_batch("0a1b2c3d ------------------------------------ run:1:1") is None
