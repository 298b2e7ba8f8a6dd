"""Functions that repeat a background task until no work is left."""

from waybook.app.request.services import Services
from waybook.background import index_all_orgs


async def index_all(services: Services) -> None:
    while await index_all_orgs(services):
        pass
