"""Background work repeated until none is left."""

from waybook.app.request.services import Services
from waybook.background import index_all_orgs


async def index_all(services: Services) -> None:
    """Index everything that is pending."""
    while await index_all_orgs(services):
        pass
