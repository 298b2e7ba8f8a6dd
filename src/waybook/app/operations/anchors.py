"""Writes anchor files, and compares the database with them.

An anchor file records the last entry of every audit chain.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple, TypeAlias
from uuid import UUID

from waybook.app.operations.erasure import contexts_of_all_orgs
from waybook.app.operations.private_file import private_file
from waybook.app.request.request_context import RequestContext
from waybook.errors import InvalidInput
from waybook.store.driver.queries import Ids
from waybook.store.maintenance import anchors
from waybook.store.maintenance.anchors import Anchor, AnchorFile
from waybook.store.maintenance.archive import is_archive, open_archive

AnchorTotals: TypeAlias = anchors.AnchorTotals
#: Anchor that does not match the database, and the hash of its audit entry in the database (None if
#: the entry is missing).
_Mismatch: TypeAlias = tuple[Anchor, bytes | None]

_BATCH = 500


class AnchorCheck(NamedTuple):
    at: str
    chains: int
    errors: dict[UUID, list[str]]

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def error_count(self) -> int:
        return sum(map(len, self.errors.values()))


async def write_anchor(ctx: RequestContext, path: Path) -> AnchorTotals:
    """Write the last entry of every audit chain to a file, replacing an existing file."""
    at = await ctx.services.database.read_now(ctx.caller.org_id)
    taken: list[Anchor] = []
    for org_ctx in await contexts_of_all_orgs(ctx):
        (ends,) = await org_ctx.read(anchors.SQL["ends"]())
        taken += ends
    with private_file(path, force=True) as file:
        return anchors.write_anchors(file, at, taken)


async def check_anchor(ctx: RequestContext, path: Path) -> AnchorCheck:
    """Compare the database with an anchor file, or with the anchor in a backup."""
    errors: dict[UUID, list[str]] = {}
    chains = 0
    with open_anchors(path) as stored:
        for org_id, of_org in groupby(stored, key=lambda anchor: anchor.org_id):
            there = replace(ctx, caller=replace(ctx.caller, org_id=org_id))
            missing, erasures = list[_Mismatch](), 0
            while batch := [*islice(of_org, _BATCH)]:
                chains += len(batch)
                erasures = max([erasures, *(a.seq for a in batch if a.subject == "erasure")])
                missing += await _missing(there, batch)
            messages = [message async for message in _unexplained(there, missing, erasures)]
            if messages:
                errors[org_id] = messages
        return AnchorCheck(stored.at, chains, errors)


async def _missing(ctx: RequestContext, batch: list[Anchor]) -> list[_Mismatch]:
    (rows,) = await ctx.read(anchors.entries_statement(batch))
    return anchors.missing_anchors(batch, rows)


async def _unexplained(
    ctx: RequestContext, missing: list[_Mismatch], erasures: int
) -> AsyncIterator[str]:
    """Yield a message for each mismatch, except for those that a later erasure caused."""
    for start in range(0, len(missing), _BATCH):
        batch = missing[start : start + _BATCH]
        ids = Ids([anchor.subject_id for anchor, _ in batch])
        (left,) = await ctx.read(anchors.SQL["stones"](ids=ids))
        stones, resealed = anchors.read_stones(left), list[Anchor]()
        for anchor, current_hash in batch:
            stone = anchors.explanation(anchor, stones.get(anchor.subject_id, ()), erasures)
            if stone is None:
                yield _describe(anchor, current_hash)
            elif stone.seal_after is not None:
                resealed.append(anchor._replace(seq=stone.entries, hash=stone.seal_after))
        for anchor, current_hash in await _missing(ctx, resealed) if resealed else ():
            yield _describe(anchor, current_hash)


def _describe(anchor: Anchor, current_hash: bytes | None) -> str:
    chain = f"{anchor.subject.replace('_', ' ')} {anchor.subject_id}"
    if anchor.subject == "erasure":
        chain = f"the record of erasures of org {anchor.subject_id}"
    if current_hash is None:
        return f"{chain}: entry {anchor.seq} is missing, and no erasure explains it"
    return f"{chain}: entry {anchor.seq} has a different hash than in the anchor"


@contextmanager
def open_anchors(path: Path) -> Iterator[AnchorFile]:
    """Open an anchor file, or the anchor that a backup file contains."""
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}; waybook audit anchor writes one")
    if is_archive(path):
        with open_archive(path) as archive, archive.anchors() as anchor_file:
            yield anchor_file
        return
    with path.open("rb") as file:
        yield AnchorFile(file)
