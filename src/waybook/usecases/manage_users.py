"""Users of an org: let in, let do more or less, kept out, let in again."""

from collections.abc import Callable
from typing import Any, TypeAlias

from waybook.errors import InvalidInput, NotFound
from waybook.orgs import manage
from waybook.orgs.manage import NewUser
from waybook.orgs.model import User
from waybook.record.changes import Entry
from waybook.record.moment import DecisionContext
from waybook.record.scopes import Scope
from waybook.store import identities
from waybook.store.database import KeyConflict
from waybook.usecases.call import RequestContext
from waybook.usecases.held_org import lock_org

#: What becomes of a user, and the entry of it, if there is anything to do.
UserChange: TypeAlias = Callable[[User, DecisionContext], tuple[User, Entry | None]]


async def add_user(ctx: RequestContext, new: NewUser) -> User:
    """Let somebody in.

    Raises:
        Forbidden: the caller does not look after the org.
        InvalidInput: somebody is called so already, or nobody can be.
    """
    async with lock_org(ctx) as locked:
        user, entry = manage.add_user(new, locked.decision_context)
        try:
            await locked.write(entry)
        except KeyConflict:
            raise InvalidInput(
                f"there is a user {user.name} already; every user has a name of their own",
                argument="name",
            ) from None
    return user


async def disable_user(ctx: RequestContext, name: str) -> User:
    """Let them in no more, whatever they show.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is nobody of this name.
        IllegalMove: they are disabled already.
    """
    return await _changed(ctx, name, manage.disable_user)


async def enable_user(ctx: RequestContext, name: str) -> User:
    """Let them in again.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is nobody of this name.
        IllegalMove: they are not disabled.
    """
    return await _changed(ctx, name, manage.enable_user)


async def change_scopes(ctx: RequestContext, name: str, scopes: tuple[Scope, ...]) -> User:
    """Let them do this at most: from the next request on, by whatever credential.

    Raises:
        Forbidden: the caller does not look after the org.
        NotFound: there is nobody of this name.
        InvalidInput: they could do nothing.
    """
    return await _changed(ctx, name, lambda user, now: manage.change_scopes(user, scopes, now))


async def _changed(ctx: RequestContext, name: str, rule: UserChange) -> User:
    async with lock_org(ctx, identities.user_statement(name)) as locked:
        user, entry = rule(require_user(locked.results[0], name), locked.decision_context)
        if entry is not None:
            await locked.write(entry)
    return user


def require_user(rows: list[tuple[Any, ...]], name: str) -> User:
    """The user that was found under a name.

    Raises:
        NotFound: nobody was.
    """
    found = identities.read_users(rows)
    if not found:
        raise NotFound(f"there is no user {name} in this org")
    return found[0]
