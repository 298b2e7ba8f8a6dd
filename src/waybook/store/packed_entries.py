"""Short form of frequent audit entries: claims and results of steps.

One control character replaces each known part of the text. The SQL function `app_entry_details`
restores the exact text, so hashes stay valid.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from waybook.core.changes import Event
from waybook.json_values import rfc3339
from waybook.store.driver.queries import is_id

#: Maximum length of details that Waybook shortens. PostgreSQL compresses longer texts itself.
MAX_PACKED_LENGTH = 2_000
#: Texts for which queries search the column `details`. Entries with them are not shortened.
NOT_PACKED = ('["usage",', "add_steps")
STEP_ID = slice(len('{"stepId":"'), len('{"stepId":"') + 36)
NO_DETAILS = "{}"
#: Length of a time with microseconds, because only such times can be restored.
TIME_LENGTH = len("2000-01-01T00:00:00.000000+00:00")

STEP, TIME, ACTOR, SESSION, PLAN = "\x01", "\x02", "\x03", "\x04", "\x05"
PHRASES = (
    ("\x06", f'{{"stepId":"{STEP}","stepOrder":'),
    ("\x07", ',"attempt":'),
    (
        "\x08",
        (
            f'["step","{STEP}",{{"status":["pending","in_progress"],"in_progress_since":["{TIME}"],'
            f'"held_by":[{ACTOR}],"held_session":[{SESSION}]}}]'
        ),
    ),
    (
        "\x0e",
        (
            f'["step","{STEP}",{{"status":["in_progress","completed"],"completed_at":["{TIME}"],'
            '"result_summary":['
        ),
    ),
    ("\x0f", '],"confidence":['),
    ("\x10", f'["session",{SESSION},{{"*":[{{"seen_at":"{TIME}"}}]}}]'),
    ("\x11", f'["plan","{PLAN}",{{"status":["planning","executing"]}}]'),
    (
        "\x12",
        f'["plan","{PLAN}",{{"status":["executing","completed"],"completed_at":["{TIME}"]}}]',
    ),
    ("\x13", ',"resumed":false'),
    ("\x14", ',"changes":['),
)
#: Events whose audit entries are stored in a short form.
PACKED_EVENTS: Mapping[str, Sequence[tuple[str, str]]] = {
    event: [(mark, phrase) for mark, phrase in PHRASES if mark in marks]
    for event, marks in (
        (Event.STEP_STARTED, "\x06\x07\x08\x10\x11\x13\x14"),
        (Event.STEP_COMPLETED, "\x06\x07\x0e\x0f\x10\x12\x14"),
    )
}


def pack_details(
    event: str, details: str, plan_id: str, at: datetime, actor: str, session: str | None
) -> tuple[str, str] | None:
    """Return the short form of an audit entry's details, and the step they are about."""
    step_id = details[STEP_ID]
    if len(details) > MAX_PACKED_LENGTH or not (_is_stored_id(step_id) and _is_stored_id(plan_id)):
        return None
    for text in NOT_PACKED:
        if text in details:
            return None
    packed = details.replace(step_id, STEP).replace(plan_id, PLAN)
    time = rfc3339(at)
    if len(time) == TIME_LENGTH:
        packed = packed.replace(time, TIME)
    packed = packed.replace(f'"{actor}"', ACTOR)
    if session is not None:
        packed = packed.replace(f'"{session}"', SESSION)
    for mark, phrase in PACKED_EVENTS[event]:
        packed = packed.replace(phrase, mark)
    return packed, step_id


@lru_cache(maxsize=16_384)
def _is_stored_id(text: str) -> bool:
    return is_id(text) and text == text.lower()
