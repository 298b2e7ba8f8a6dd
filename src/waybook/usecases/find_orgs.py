"""The orgs there are, for whoever runs the server."""

import difflib
from uuid import UUID

from waybook.errors import NotFound
from waybook.store import tenants
from waybook.store.tenants import Listed
from waybook.usecases.house import House


async def find_orgs(house: House) -> list[Listed]:
    """All of them, by their slugs."""
    (rows,) = await house.database.overlooking(tenants.orgs_statement())
    return tenants.read_orgs(rows)


async def meant_org(house: House, slug: str) -> UUID:
    """The org of this slug.

    Raises:
        NotFound: there is none.
    """
    slugs = {one.org.slug: one.org.id for one in await find_orgs(house)}
    if slug not in slugs:
        near = difflib.get_close_matches(slug, slugs, 1)
        raise NotFound(f"there is no org {slug}{f'; did you mean {near[0]}?' if near else ''}")
    return UUID(slugs[slug])
