"""Compression of stored answers with a dictionary of the texts that most answers contain.

A packed answer is one byte with the number of its dictionary, and a raw deflate stream of the
answer's JSON text. A dictionary that was published never changes, because answers that were packed
with it stay in the database; a new dictionary gets the next number.
"""

import zlib

import orjson

from waybook.json_values import Json

#: Maximum length in bytes of an answer that is packed. PostgreSQL compresses longer texts itself.
MAX_PACKED_BYTES = 2_000
#: Dictionaries by number. The most frequent texts are at the end, where they cost the fewest bits.
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
)
CURRENT = len(DICTIONARIES) - 1
#: Window and memory of the compressor: enough for the dictionary and the longest packed answer. The
#: defaults of zlib would allocate 256 kB per answer, which takes five times as long.
WINDOW_BITS = -12
MEMORY_LEVEL = 5
#: Compression level. Higher levels take twice as long, and save about one byte per answer.
LEVEL = 3
#: Compressor that has read the dictionary. A copy of it takes half the time of a new compressor.
_PACKER = zlib.compressobj(
    LEVEL,
    zlib.DEFLATED,
    WINDOW_BITS,
    MEMORY_LEVEL,
    zlib.Z_DEFAULT_STRATEGY,
    DICTIONARIES[CURRENT],
)


def pack(answer: Json) -> bytes | None:
    """Return the packed answer, or None if it is too long to be packed."""
    text = orjson.dumps(answer)
    if len(text) > MAX_PACKED_BYTES:
        return None
    packer = _PACKER.copy()
    return bytes((CURRENT,)) + packer.compress(text) + packer.flush()


def unpack(packed: bytes) -> dict[str, Json]:
    """Return the answer that was packed.

    Raises:
        ValueError: the bytes are not a packed answer.
    """
    if not packed or packed[0] > CURRENT:
        raise ValueError("a stored answer was packed by a newer version")
    unpacker = zlib.decompressobj(WINDOW_BITS, DICTIONARIES[packed[0]])
    text = unpacker.decompress(packed[1:], MAX_PACKED_BYTES + 1)
    if len(text) > MAX_PACKED_BYTES or not unpacker.eof:
        raise ValueError("a stored answer is damaged")
    answer: dict[str, Json] = orjson.loads(text)
    return answer
