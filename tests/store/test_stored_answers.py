"""Stored answers for repeated calls: returned only for the same request."""

import pytest

from waybook.errors import IdempotencyConflict
from waybook.json_values import Json
from waybook.store.calls import Key, StoredAnswer, hash_arguments, read_answer

ARGUMENTS: Json = {"plan_id": "p", "name": "Rivers"}
QUESTION: Json = {"user": "ann", "arguments": ARGUMENTS}
SHORT: Json = {"user": "ann", "arguments": {"plan_id": "s", "name": "Rivers"}}
KEY = Key("submit", "k1", hash_arguments(SHORT), lambda: (QUESTION, ARGUMENTS))


def test_repeated_request_gets_the_stored_answer() -> None:
    assert read_answer((KEY.arguments_hash.hex(), False, {}), KEY) == StoredAnswer(
        {}, is_error=False
    )


@pytest.mark.parametrize("earlier", [ARGUMENTS, QUESTION])
def test_answer_stored_by_an_earlier_waybook_version_is_returned(earlier: Json) -> None:
    """An earlier version hashed other values, and a call may be retried after the upgrade."""
    assert read_answer((hash_arguments(earlier).hex(), True, {}), KEY) == StoredAnswer(
        {}, is_error=True
    )


@pytest.mark.parametrize(
    "question",
    [{"user": "ben", "arguments": ARGUMENTS}, {"user": "ann", "arguments": {"plan_id": "q"}}, {}],
)
def test_different_request_with_same_idempotency_key_raises_a_conflict(question: Json) -> None:
    with pytest.raises(IdempotencyConflict):
        read_answer((hash_arguments(question).hex(), False, {}), KEY)
