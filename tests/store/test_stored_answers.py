"""Stored answers, which are returned only if the same request is repeated."""

import pytest

from waybook.errors import IdempotencyConflict
from waybook.json_values import Json
from waybook.store.calls import Key, StoredAnswer, hash_arguments, read_answer

ARGUMENTS: Json = {"plan_id": "p", "name": "Rivers"}
KEY = Key("submit", "k1", "ann", hash_arguments(ARGUMENTS))


def test_repeated_request_gets_the_stored_answer() -> None:
    assert read_answer((KEY.arguments_hash.hex(), False, {}), KEY) == StoredAnswer(
        {}, is_error=False
    )


@pytest.mark.parametrize("arguments", [{"plan_id": "q", "name": "Rivers"}, {}])
def test_different_request_with_same_idempotency_key_raises_a_conflict(arguments: Json) -> None:
    with pytest.raises(IdempotencyConflict):
        read_answer((hash_arguments(arguments).hex(), False, {}), KEY)
