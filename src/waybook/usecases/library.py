"""What search needs beside the rows: who makes vectors, what the server can do, what was swept."""

import logging
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from waybook.errors import EndpointFailed
from waybook.research.embedding import Vector
from waybook.research.text_model import TextModel
from waybook.store import search
from waybook.store.database import Database, Results
from waybook.store.passages import Meanings, Piece
from waybook.store.search import Abilities
from waybook.store.sql import Statement
from waybook.usecases.shipped_model import ShippedModel

log = logging.getLogger(__name__)


class Library:
    def __init__(self, model: TextModel | None = None) -> None:
        """Search with vectors of this model, or of the one that comes with us."""
        self.model: TextModel = model or ShippedModel()
        #: For each org since when there may be something that is not indexed.
        self.swept: dict[UUID, datetime] = {}
        self._abilities: Abilities | None = None

    def unasked(self) -> list[Statement]:
        """What is still to be asked of the server, for who has a message to send anyway."""
        return [] if self._abilities else [search.abilities_statement()]

    def learn(self, answers: Results) -> None:
        """Remember the answer to `unasked`, if something was."""
        for rows in answers:
            self._abilities = search.read_abilities(rows)

    async def abilities(self, database: Database, org_id: UUID) -> Abilities:
        """What the server can do for search; asked once, for it stays so while we run."""
        if self._abilities is None:
            (rows,) = await database.read(org_id, search.abilities_statement())
            self._abilities = search.read_abilities(rows)
        return self._abilities

    async def vectors(self, texts: Sequence[str]) -> list[Vector] | None:
        """A vector for each text; None if they cannot be had right now."""
        try:
            return await self.model.vectors(texts)
        except EndpointFailed as fault:
            log.info("search goes by words alone for now: %s", fault)
            return None

    async def meanings(self, pieces: Sequence[Piece], abilities: Abilities) -> Meanings | None:
        """The vectors of these pieces, where the server keeps any and they can be had now."""
        if not abilities.vectors or not pieces:
            return None
        made = await self.vectors([piece.said for piece in pieces])
        return Meanings(self.model.name, made) if made is not None else None
