"""What a reply says of the characters in it that nobody sees."""

from collections.abc import Callable
from typing import cast

import orjson

from waybook.record.moment import Json
from waybook.record.oddities import FLAG, hidden_by_field, may_contain_hidden
from waybook.usecases.exchange import Answer

#: No reply gets longer than this for the sake of its flag, in bytes.
MAX_FLAGGED_REPLY_BYTES = 48_000
#: What a flag may take where the room is counted.
FLAG_BYTES = 400


def hidden_character_flag(body: Json, room: int) -> dict[str, Json]:
    """The flag of a reply, if it needs one: what is in which field, or in how many of them."""
    found = hidden_by_field(body)
    if len(orjson.dumps({FLAG: found})) <= room or not found:
        return found
    return {"more": len(found) - ("more" in found) + cast("int", found.get("more", 0))}


def build_within(make: Callable[[int], dict[str, Json]], room: int) -> dict[str, Json]:
    """A reply made for so many bytes, its flag counted among them."""
    body = make(room)
    if not may_contain_hidden(orjson.dumps(body)) or not hidden_by_field(body):
        return body
    body = make(room - FLAG_BYTES)
    found = hidden_character_flag(body, FLAG_BYTES)
    return {**body, FLAG: found} if found else body


def add_flag(answer: Answer, dumped: bytes) -> Answer:
    """The answer, which is this JSON, with a flag if texts in it have odd characters."""
    if FLAG in answer.body or not may_contain_hidden(dumped):
        return answer
    found = hidden_character_flag(cast("Json", answer.body), MAX_FLAGGED_REPLY_BYTES - len(dumped))
    if not found:
        return answer
    error = answer.body.get("error")
    if not (answer.is_error and isinstance(error, dict)):
        return Answer({**answer.body, FLAG: found})
    told = {**error, "details": {**error["details"], FLAG: found}}
    return Answer({**answer.body, "error": told}, is_error=True)
