"""Stored answers for repeated calls are found by the request."""

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
    """Earlier versions stored only the hash of the arguments; a retry may follow an upgrade."""
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
