"""Users of an org: let in, kept out, let in again."""

from typing import Any

from waybook.errors import InvalidInput, NotFound
from waybook.orgs.manage import NewUser
from waybook.orgs.manage import add_user as add
from waybook.orgs.manage import disable_user as disable
from waybook.orgs.manage import enable_user as enable
from waybook.orgs.model import User
from waybook.store import identities
from waybook.store.database import Taken
from waybook.usecases.call import Call
from waybook.usecases.held_org import held_org


async def add_user(call: Call, new: NewUser) -> User:
    """Let somebody in.

    Raises:
        Forbidden: the caller does not look after the org.
        InvalidInput: somebody is called so already, or nobody can be.
    """
    async with held_org(call) as held:
        user, entry = add(new, held.moment)
        try:
            await held.write(entry)
        except Taken:
            raise InvalidInput(
                f"there is a user {user.name} already; every user has a name of their own",
                argument="name",
            ) from None
    return user


async def disable_user(call: Call, name: str) -> User:
    """Let them in no more, whatever they show.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is nobody of this name.
        IllegalMove: they are disabled already.
    """
    async with held_org(call, identities.user_statement(name)) as held:
        user, entry = disable(meant_user(held.found[0], name), held.moment)
        await held.write(entry)
    return user


async def enable_user(call: Call, name: str) -> User:
    """Let them in again.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is nobody of this name.
        IllegalMove: they are not disabled.
    """
    async with held_org(call, identities.user_statement(name)) as held:
        user, entry = enable(meant_user(held.found[0], name), held.moment)
        await held.write(entry)
    return user


def meant_user(rows: list[tuple[Any, ...]], name: str) -> User:
    """The user that was found under a name.

    Raises:
        NotFound: nobody was.
    """
    found = identities.read_users(rows)
    if not found:
        raise NotFound(f"there is no user {name} in this org")
    return found[0]
