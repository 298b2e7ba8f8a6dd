"""Users and tokens of the org: who may come in, and by what.

Everything works without JavaScript. A token is in the answer to the form that made it, and in no
other page; revoking is asked twice.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.errors import InvalidInput, WaybookError
from waybook.orgs.manage import NewUser
from waybook.orgs.model import Token
from waybook.record.moment import ReviewPolicy
from waybook.record.scopes import Scope
from waybook.transport.web.dashboard.desk import Desk
from waybook.transport.web.dashboard.forms import sent
from waybook.transport.web.dashboard.responding import Said
from waybook.transport.web.reading import status_of
from waybook.usecases.call import Call
from waybook.usecases.list_members import counts, list_members
from waybook.usecases.manage_orgs import change_org
from waybook.usecases.manage_tokens import (
    USUAL_DAYS,
    USUAL_SCOPES,
    AskedToken,
    GivenToken,
    add_token,
    revoke_token,
)
from waybook.usecases.manage_users import add_user, change_scopes, disable_user, enable_user

LONGEST_DAYS: Final = 3_650
#: What is said after something was done.
NOTES: Final = {
    "revoke": "The token counts no more.",
    "policy": "Reviews are decided so from now on.",
    "add_user": "They may come in; give them a token.",
    "scopes": "That is what they may do from now on.",
    "disable": "They are kept out, whatever they show.",
    "enable": "They may come in again.",
}
#: What each scope lets one do, in words.
MAY: Final[Mapping[Scope, str]] = {
    Scope.PLAN_READ: "read",
    Scope.PLAN_WRITE: "work on plans",
    Scope.RUN_WRITE: "work on runs",
    Scope.REVIEW: "decide reviews",
    Scope.ADMIN: "everything, users and tokens included",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the page shows beside what is there."""

    fault: str | None = None
    given: GivenToken | None = None
    #: The id of the token that is to be revoked, once somebody is sure.
    asking: str | None = None
    typed: Mapping[str, str] = field(default_factory=dict)
    status: int = HTTPStatus.OK


@dataclass(frozen=True, slots=True)
class TokensPage:
    desk: Desk

    async def __call__(self, request: Request) -> Response:
        """The page, or what a form of it asks for."""
        if request.method != "POST":
            return await self._page(request, Shown())
        said = Said(await sent(request))
        act, call = said.text("act"), await self.desk.call(request)
        try:
            shown = await ACTS.get(act, _unclear)(call, said)
        except WaybookError as fault:
            typed = {name: said.text(name) for name in ("label", "name")}
            status = status_of(fault.code)
            shown = Shown(fault=fault.message, typed=typed, status=status)
        if shown is None:
            return RedirectResponse(f"/tokens?done={act}", HTTPStatus.SEE_OTHER)
        return await self._page(request, shown)

    async def _page(self, request: Request, shown: Shown) -> Response:
        members = await list_members(await self.desk.call(request))

        def counting(token: Token) -> bool:
            return counts(token, members.now)

        return await self.desk.page(
            request,
            "tokens",
            status_code=shown.status,
            members=members,
            shown=shown,
            note=NOTES.get(request.query_params.get("done", "")),
            may=MAY,
            usual=USUAL_SCOPES,
            days=USUAL_DAYS,
            counting=counting,
            address=f"{self.desk.doorway.house.base_url}/mcp",
        )


#: Carries out what a form asks for; what is to be shown, or nothing if the page says it all.
Act = Callable[[Call, Said], Awaitable[Shown | None]]


async def _create(call: Call, said: Said) -> Shown:
    asked = AskedToken(
        user=said.text("user"), label=said.text("label"), scopes=_scopes(said), days=_days(said)
    )
    return Shown(given=await add_token(call, asked))


async def _revoke(call: Call, said: Said) -> Shown | None:
    token_id = said.text("id")
    if not said.text("confirmed"):
        return Shown(asking=token_id)
    await revoke_token(call, token_id)
    return None


async def _policy(call: Call, said: Said) -> None:
    try:
        policy = ReviewPolicy(said.text("policy"))
    except ValueError:
        raise InvalidInput("choose who decides reviews", argument="policy") from None
    await change_org(call, policy=policy)


async def _add_user(call: Call, said: Said) -> None:
    await add_user(call, NewUser(name=said.text("name"), scopes=_scopes(said)))


async def _change_scopes(call: Call, said: Said) -> None:
    await change_scopes(call, said.text("user"), _scopes(said))


async def _disable(call: Call, said: Said) -> None:
    await disable_user(call, said.text("user"))


async def _enable(call: Call, said: Said) -> None:
    await enable_user(call, said.text("user"))


async def _unclear(_: Call, __: Said) -> Shown:
    raise InvalidInput("choose one of the buttons")


ACTS: Final[Mapping[str, Act]] = {
    "create": _create,
    "revoke": _revoke,
    "policy": _policy,
    "add_user": _add_user,
    "scopes": _change_scopes,
    "disable": _disable,
    "enable": _enable,
}


def _scopes(said: Said) -> tuple[Scope, ...]:
    known = {str(scope): scope for scope in Scope}
    chosen = said.fields.getlist("scope")
    if any(word not in known for word in chosen):
        raise InvalidInput("there is no such scope", argument="scope")
    return tuple(known[str(word)] for word in chosen)


def _days(said: Said) -> int | None:
    """For how many days; none at all is for ever."""
    text = said.text("days").strip()
    if not text:
        return None
    days = int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 0  # noqa: PLR2004 - of four digits
    if not 1 <= days <= LONGEST_DAYS:
        raise InvalidInput(f"days must be 1 to {LONGEST_DAYS}, or nothing", argument="days")
    return days
