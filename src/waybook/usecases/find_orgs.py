"""The orgs there are, for whoever runs the server."""

import difflib
from uuid import UUID

from waybook.errors import NotFound
from waybook.store import tenants
from waybook.store.tenants import OrgListItem
from waybook.usecases.house import Services


async def find_orgs(services: Services) -> list[OrgListItem]:
    """All of them, by their slugs."""
    (rows,) = await services.database.read_directory(tenants.orgs_statement())
    return tenants.read_orgs(rows)


async def require_org(services: Services, slug: str) -> UUID:
    """The org of this slug.

    Raises:
        NotFound: there is none.
    """
    slugs = {one.org.slug: one.org.id for one in await find_orgs(services)}
    if slug not in slugs:
        near = difflib.get_close_matches(slug, slugs, 1)
        raise NotFound(f"there is no org {slug}{f'; did you mean {near[0]}?' if near else ''}")
    return UUID(slugs[slug])
