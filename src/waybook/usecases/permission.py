"""Whether somebody may do what no tool does."""

from waybook.errors import Forbidden
from waybook.record.scopes import Scope
from waybook.usecases.exchange import Caller


def require_scope(caller: Caller, scope: Scope, what: str) -> None:
    """Refuse a caller without this scope.

    Raises:
        Forbidden: they have not got it.
    """
    if scope not in caller.scopes:
        raise Forbidden(
            f"{what} needs the scope {scope}, which your credential does not have; ask whoever "
            "gave it to you",
            needed=[str(scope)],
            granted=sorted(caller.scopes),
        )
