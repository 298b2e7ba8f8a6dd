"""Rounds of background work, until there is no more."""

from waybook.background import index_all_orgs
from waybook.usecases.house import Services


async def index_all(services: Services) -> None:
    """Index all that waits."""
    while await index_all_orgs(services):
        pass
