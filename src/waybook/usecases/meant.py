"""The one thing a person means by a few letters."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from waybook.errors import InvalidInput, NextCall, NotFound

#: As many are looked for: enough to name some of those that could be meant.
MAX_CANDIDATES = 5


class NamedItem(Protocol):
    """A plan or a run in a list."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


NamedItemT = TypeVar("NamedItemT", bound=NamedItem)


def resolve_one(
    found: Sequence[NamedItemT], text: str | None, *, what: str, tool: str
) -> NamedItemT:
    """The only one of those found, or the only one that is called just so.

    Raises:
        NotFound: there is none.
        InvalidInput: there are several.
    """
    found = [one for one in found if text in {one.id, one.name}] or found
    if not found:
        said = f"there is no {what} “{text}” here" if text else f"no {what} is open"
        raise NotFound(said, next_call=NextCall(tool, {}, f"see the {what}s"))
    if len(found) > 1:
        names = ", ".join(f"{one.id} ({one.name})" for one in found)
        said = f"“{text}” could mean several {what}s" if text else f"several {what}s are open"
        raise InvalidInput(f"{said}, say which: {names}", next_call=NextCall(tool, {}, "see them"))
    return found[0]
