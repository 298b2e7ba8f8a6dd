"""Stored answers for repeated calls: returned only for the same request."""

import pytest

from waybook.errors import IdempotencyConflict
from waybook.json_values import Json
from waybook.store.calls import Key, StoredAnswer, hash_arguments, read_answer

ARGUMENTS: Json = {"plan_id": "p", "name": "Rivers"}
KEY = Key("submit", "k1", hash_arguments({"user": "ann", "arguments": ARGUMENTS}), ARGUMENTS)


def test_read_answer_same_request_returns_stored_answer() -> None:
    assert read_answer((KEY.arguments_hash.hex(), False, {}), KEY) == StoredAnswer(
        {}, is_error=False
    )


def test_read_answer_stored_by_earlier_version_is_returned() -> None:
    """A call may be retried after an upgrade from a version that stored only a hash."""
    assert read_answer((hash_arguments(ARGUMENTS).hex(), True, {}), KEY) == StoredAnswer(
        {}, is_error=True
    )


@pytest.mark.parametrize(
    "question",
    [{"user": "ben", "arguments": ARGUMENTS}, {"user": "ann", "arguments": {"plan_id": "q"}}, {}],
)
def test_read_answer_different_request_raises_idempotency_conflict(question: Json) -> None:
    with pytest.raises(IdempotencyConflict):
        read_answer((hash_arguments(question).hex(), False, {}), KEY)
