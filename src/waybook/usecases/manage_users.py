"""Users of an org: let in, let do more or less, kept out, let in again."""

from collections.abc import Callable
from typing import Any, TypeAlias

from waybook.errors import InvalidInput, NotFound
from waybook.orgs import manage
from waybook.orgs.manage import NewUser
from waybook.orgs.model import User
from waybook.record.changes import Entry
from waybook.record.moment import Moment
from waybook.record.scopes import Scope
from waybook.store import identities
from waybook.store.database import Taken
from waybook.usecases.call import Call
from waybook.usecases.held_org import held_org

#: What becomes of a user, and the entry of it, if there is anything to do.
Rule: TypeAlias = Callable[[User, Moment], tuple[User, Entry | None]]


async def add_user(call: Call, new: NewUser) -> User:
    """Let somebody in.

    Raises:
        Forbidden: the caller does not look after the org.
        InvalidInput: somebody is called so already, or nobody can be.
    """
    async with held_org(call) as held:
        user, entry = manage.add_user(new, held.moment)
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
    return await _changed(call, name, manage.disable_user)


async def enable_user(call: Call, name: str) -> User:
    """Let them in again.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is nobody of this name.
        IllegalMove: they are not disabled.
    """
    return await _changed(call, name, manage.enable_user)


async def change_scopes(call: Call, name: str, scopes: tuple[Scope, ...]) -> User:
    """Let them do this at most: from the next request on, by whatever credential.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is nobody of this name.
        InvalidInput: they could do nothing.
    """
    return await _changed(call, name, lambda user, now: manage.change_scopes(user, scopes, now))


async def _changed(call: Call, name: str, rule: Rule) -> User:
    async with held_org(call, identities.user_statement(name)) as held:
        user, entry = rule(meant_user(held.found[0], name), held.moment)
        if entry is not None:
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
