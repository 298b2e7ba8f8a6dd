"""Rounds of background work, until there is no more."""

from waybook.background import index_once
from waybook.usecases.house import House


async def index_all(house: House) -> None:
    """Index all that waits."""
    while await index_once(house):
        pass
