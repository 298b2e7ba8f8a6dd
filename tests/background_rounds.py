"""Rounds of background work, until there is no more."""

from waybook.app.request.services import Services
from waybook.background import index_all_orgs


async def index_all(services: Services) -> None:
    """Index all that waits."""
    while await index_all_orgs(services):
        pass
