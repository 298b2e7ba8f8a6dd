"""Stored answers for repeated calls: returned only for the same request."""

import zlib
from hashlib import sha256

import orjson
import pytest

from waybook.errors import IdempotencyConflict
from waybook.json_values import Json
from waybook.store.calls import Key, StoredAnswer, hash_arguments, read_answer
from waybook.store.packed_answers import DICTIONARIES, MAX_PACKED_BYTES, pack, unpack

ARGUMENTS: Json = {"plan_id": "p", "name": "Rivers"}
KEY = Key("submit", "k1", "ann", hash_arguments(ARGUMENTS))


def test_repeated_request_gets_the_stored_answer() -> None:
    assert read_answer((KEY.arguments_hash.hex(), False, {}, None), KEY) == StoredAnswer(
        {}, is_error=False
    )


@pytest.mark.parametrize("arguments", [{"plan_id": "q", "name": "Rivers"}, {}])
def test_different_request_with_same_idempotency_key_raises_a_conflict(arguments: Json) -> None:
    with pytest.raises(IdempotencyConflict):
        read_answer((hash_arguments(arguments).hex(), False, {}, None), KEY)


ID = "01a1ea17-78a7-7ab8-a57c-9faf5d1dd32c"

#: Digests of the published dictionaries. Stored answers cannot be read with other dictionaries.
DIGESTS = ["e7cd6a5d71fde723", "c8d73fd01b5214d7"]


def test_dictionaries_for_packed_answers_never_change() -> None:
    assert [sha256(words).hexdigest()[:16] for words in DICTIONARIES] == DIGESTS


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": "step_ready", "stepOrder": 3, "next": {"args": {}, "tool": "é\x00\u2028"}},
        {"z": [None, True, 0.1, -1, [{}]], "a": "x" * 1_500},
        {"planId": ID, "next": {"args": {"planId": ID, "stepId": ID[::-1]}}, "why": ID},
        {"planId": ID.upper(), "stepId": "\x01", "jobId": "é" * 40},
        {f"{n}Id": f"{n:08}{ID[8:]}" for n in range(38)},
    ],
)
def test_packed_answer_is_unpacked_unchanged_with_same_key_order(answer: dict[str, Json]) -> None:
    packed = pack(answer)
    assert packed is not None
    assert orjson.dumps(unpack(packed)) == orjson.dumps(answer)


def test_answer_longer_than_the_limit_is_not_packed() -> None:
    assert pack({"text": "x" * MAX_PACKED_BYTES}) is None


def test_repeated_request_gets_the_packed_answer() -> None:
    packed = pack({"status": "step_ready"})
    assert packed is not None
    stored = read_answer((KEY.arguments_hash.hex(), False, None, packed.hex()), KEY)
    assert stored == StoredAnswer({"status": "step_ready"}, is_error=False)


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"\x00\x01", (pack({"a": "b"}) or b"")[:-1]])
def test_unpacking_a_damaged_answer_raises_an_error(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="stored answer"):
        unpack(damaged)


def test_answer_packed_with_the_first_dictionary_can_still_be_read() -> None:
    packer = zlib.compressobj(6, zlib.DEFLATED, -12, 5, zlib.Z_DEFAULT_STRATEGY, DICTIONARIES[0])
    packed = b"\0" + packer.compress(b'{"planId":"%b"}' % ID.encode()) + packer.flush()
    assert unpack(packed) == {"planId": ID}


def test_id_in_a_packed_answer_takes_sixteen_bytes() -> None:
    without, with_id = pack({"planId": "", "a": ""}), pack({"planId": ID, "a": ID})
    assert without is not None
    assert with_id is not None
    assert len(with_id) <= len(without) + 16 + 4
