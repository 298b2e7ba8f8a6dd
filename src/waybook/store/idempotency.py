"""Stored answers: a retried call is answered, not carried out again."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from waybook.errors import IdempotencyConflict
from waybook.record.moment import Json
from waybook.store.sql import Statement, load

SQL = load("idempotency")


@dataclass(frozen=True, slots=True)
class Key:
    """One logical call: its tool, the caller's key for it, and what was asked."""

    tool: str
    key: str
    arguments_hash: bytes
    #: Earlier versions stored answers under the hash of the arguments alone.
    arguments: Json = None


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    body: dict[str, Json]
    is_error: bool


def hash_arguments(arguments: Json) -> bytes:
    """What was asked, as a hash that does not depend on the order of names."""
    return sha256(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)).digest()


def lookup_statement(key: Key) -> Statement:
    """Look for a stored answer. Sent behind the lock, so that a twin's answer is seen."""
    return SQL["stored_answer"](tool=key.tool, key=key.key)


def read_answer(told: Sequence[Any], key: Key) -> StoredAnswer:
    """The stored answer to the same question, from its hash, its kind and its body.

    Raises:
        IdempotencyConflict: the key was used for another question.
    """
    arguments_hash, is_error, body = told
    stored = bytes.fromhex(arguments_hash)
    if stored not in {key.arguments_hash, hash_arguments(key.arguments)}:
        raise IdempotencyConflict(
            f"idempotencyKey was used before for {key.tool} with other arguments or by another "
            "user; use a new key for a new call, the same key only to repeat the very same call",
            idempotencyKey=key.key,
            tool=key.tool,
        )
    return StoredAnswer(body, is_error)
