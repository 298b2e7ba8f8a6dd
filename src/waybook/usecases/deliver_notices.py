"""Delivering what there is to tell. The server does this by itself.

A letter is claimed for a while, delivered with nothing held, then noted. Whoever is killed in
between leaves it to the next one who looks, and then it comes twice, under the same id.
"""

import asyncio
import logging
import random
from datetime import timedelta

from waybook.notices.letter import Letter, Outcome, Postman
from waybook.notices.schedule import Standing, verdict
from waybook.store import deliveries
from waybook.usecases.call import Call

log = logging.getLogger(__name__)

#: Letters on their way at the same time, of one process.
MOST_AT_ONCE = 4
#: How long a letter is its bearer's: longer than an attempt can take.
LEASE = timedelta(seconds=60)


async def deliver_notices(call: Call) -> int:
    """Try what is due in this org, a few at a time; returns how many were tried."""
    postman = call.house.postman
    if postman is None:
        return 0
    (rows,) = await call.touch(deliveries.claim_statement(MOST_AT_ONCE, LEASE))
    letters = deliveries.read_claimed(rows)
    await asyncio.gather(*(_deliver(call, postman, letter) for letter in letters))
    return len(letters)


async def _deliver(call: Call, postman: Postman, letter: Letter) -> Outcome:
    outcome = await postman.deliver(letter)
    found = verdict(letter, outcome, random.random())  # noqa: S311 - for spreading, not for hiding
    if found.standing is Standing.GIVEN_UP:
        said = "webhook %s (%s) is given up after %d attempts: %s"
        log.error(said, letter.id, letter.event, letter.attempt, outcome.fault)
    elif outcome.fault:
        log.warning("webhook %s (%s) is tried again: %s", letter.id, letter.event, outcome.fault)
    await call.touch(*deliveries.note_statements(letter, outcome, found))
    return outcome
