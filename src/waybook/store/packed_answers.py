"""Compresses stored answers with a dictionary of frequent texts.

A published dictionary never changes, because stored answers need it. A new dictionary gets the next
number.
"""

import re
import zlib
from binascii import unhexlify
from uuid import UUID

import orjson

from waybook.json_values import Json

#: Maximum size of an answer that Waybook compresses. PostgreSQL compresses longer answers itself.
MAX_PACKED_BYTES = 2_000
#: The most frequent texts are at the end of a dictionary, where they take the least space.
DICTIONARIES = (
    (
        b'{"status":"plan_complete","stepFormattingNotes":[],"outputs":[],"outputMissing":false,"usage":'
        b'{"inputTokens":0,"outputTokens":0,"costUsd":0,"results":0}{"error":{"code":"STALE_ATTEMPT",'
        b'"message":"","retryable":false,"details":{"retryAfter":1}}{"artifactId":"","version":1,'
        b'"reviewId":"","reviewUrl":"http://"{"runId":"","jobId":"","jobStatus":"completed","stageSlug":'
        b'"","stepKey":"","documentKey":"","modelId":"","dagSlug":"","next":{"tool":"get_next_job",'
        b'"args":{"runId":""},"why":"take a job"}}"submit_job_result","get_run_progress"'
        b'{"status":"no_pending_steps","planId":"","inProgress":1,"failed":0,"waiting":1,"steps":[],'
        b'"waitSeconds":45},"why":"others still work; wait until a step is free or the plan ends"}}'
        b'{"status":"step_ready","planId":"","stepId":"","stepOrder":10,"stepType":"extract"'
        b'"critique""checkpoint""synthesize""analyze""search","title":"","instructions":"","attempt":1,'
        b'"resultSchema":{"type":"object","properties":{"requiredSources":1,"budget":{"resumed":true,'
        b'"createdBy":"local","next":{"tool":"submit_step_result","args":{"stepId":"","attempt":1,'
        b'"takeNext":true},"why":"when the step is done"},"planStatus":"executing","submitted":'
        b'{"stepStatus":"completed","progress":{"percent":50,"done":5,"total":10}}}'
        b'{"planId":"","stepId":"","stepStatus":"completed","planStatus":"executing",'
        b'"progress":{"percent":20,"done":2,"total":10},"branches":[],'
        b'"next":{"tool":"get_next_step","args":{"planId":""},"why":"take the next step"}}'
    ),
    (
        b'{"status":"plan_complete","stepFormattingNotes":[],"outputs":[],"outputMissing":false,"usage":'
        b'{"inputTokens":0,"outputTokens":0,"costUsd":0,"results":0}{"error":{"code":"STALE_ATTEMPT",'
        b'"message":"","retryable":false,"details":{"retryAfter":1}}{"artifactId":"\x01","version":1,'
        b'"reviewId":"\x01","reviewUrl":"http://"{"runId":"\x01","jobId":"\x02","jobStatus":"completed",'
        b'"stageSlug":"","stepKey":"","documentKey":"","modelId":"","dagSlug":"","next":{"tool":'
        b'"get_next_job","args":{"runId":"\x01"},"why":"take a job"}}"submit_job_result",'
        b'"get_run_progress"{"status":"no_pending_steps","planId":"\x01","inProgress":1,"failed":0,'
        b'"waiting":1,"steps":[],"waitSeconds":45},"why":"others still work; wait until a step is '
        b'free or the plan ends"}}"extract""critique""checkpoint""synthesize""analyze","title":"",'
        b'"resultSchema":{"type":"object","properties":{"requiredSources":1,"budget":{"resumed":true,'
        b'"planStatus":"executing","submitted":{"stepStatus":"completed","progress":{'
        b'{"status":"step_ready","planId":"\x01","stepId":"\x02","stepOrder":2,"stepType":"search",'
        b'"instructions":"","attempt":1,"createdBy":"local","next":{"tool":"submit_step_result",'
        b'"args":{"stepId":"\x02","attempt":1,"takeNext":true},"why":"when the step is done"}}'
        b'{"planId":"\x01","stepId":"\x02","stepStatus":"completed","planStatus":"completed",'
        b'"progress":{"percent":100,"done":10,"total":10},"branches":[],"next":{"tool":"get_next_step",'
        b'"args":{"planId":"\x01"},"why":"see how the plan ended"}}'
        b'{"planId":"\x01","stepId":"\x02","stepStatus":"completed","planStatus":"executing",'
        b'"progress":{"percent":20,"done":2,"total":10},"branches":[],"next":{"tool":"get_next_step",'
        b'"args":{"planId":"\x01"},"why":"take the next step"}}'
    ),
)
CURRENT = len(DICTIONARIES) - 1
_IDS = re.compile(rb'Id":"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"')
#: Each id is replaced by one of the 31 control characters other than NUL.
ID_BYTES = 16
MAX_IDS = 31
_MARKS = tuple(bytes((number,)) for number in range(1, MAX_IDS + 1))
_HEADERS = tuple(bytes((CURRENT, number)) for number in range(MAX_IDS + 1))
#: Enough memory for the dictionary and the longest answer. The defaults of zlib take five times as
#: long.
WINDOW_BITS = -12
MEMORY_LEVEL = 5
#: Higher compression levels take twice as long and save about one byte per answer.
LEVEL = 3
#: Copying a compressor that has read the dictionary takes half the time of creating one.
_PACKER = zlib.compressobj(
    LEVEL,
    zlib.DEFLATED,
    WINDOW_BITS,
    MEMORY_LEVEL,
    zlib.Z_DEFAULT_STRATEGY,
    DICTIONARIES[CURRENT],
)


def pack(answer: Json) -> bytes | None:
    """Return the compressed answer, or None if it is too long."""
    text = orjson.dumps(answer)
    if len(text) > MAX_PACKED_BYTES:
        return None
    ids = [*dict.fromkeys(_IDS.findall(text))][:MAX_IDS]
    for mark, stored_id in zip(_MARKS, ids, strict=False):
        text = text.replace(stored_id, mark)
    packer = _PACKER.copy()
    packed_ids = unhexlify(b"".join(ids).replace(b"-", b""))
    return _HEADERS[len(ids)] + packed_ids + packer.compress(text) + packer.flush()


def unpack(packed: bytes) -> dict[str, Json]:
    if not packed or packed[0] > CURRENT:
        raise ValueError("a stored answer was packed by a newer version")
    count = sum(packed[1:2]) if packed[0] else 0
    start = 2 + ID_BYTES * count if packed[0] else 1
    unpacker = zlib.decompressobj(WINDOW_BITS, DICTIONARIES[packed[0]])
    text = unpacker.decompress(packed[start:], MAX_PACKED_BYTES + 1)
    if len(text) > MAX_PACKED_BYTES or not unpacker.eof:
        raise ValueError("a stored answer is damaged")
    for number in range(count):
        place = 2 + ID_BYTES * number
        stored_id = str(UUID(bytes=packed[place : place + ID_BYTES])).encode()
        text = text.replace(_MARKS[number], stored_id)
    answer: dict[str, Json] = orjson.loads(text)
    return answer
