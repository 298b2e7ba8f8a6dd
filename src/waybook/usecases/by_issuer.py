"""Who is calling, by the word of the issuer that they signed in with."""

import logging
from datetime import datetime

from waybook.endpoints.issued import Claims, Issued, SignIns, check_times, issued
from waybook.errors import Forbidden, InvalidInput, Unidentified
from waybook.orgs.manage import NewUser
from waybook.orgs.secret import PREFIX
from waybook.record.moment import Channel
from waybook.record.scopes import Scope, granted
from waybook.store import members
from waybook.store.members import Looked, Member
from waybook.usecases.call import Call
from waybook.usecases.exchange import Caller
from waybook.usecases.house import House
from waybook.usecases.identify import by_token
from waybook.usecases.manage_users import add_user

log = logging.getLogger(__name__)

#: As whom the audit knows whoever let a new user in.
SIGN_IN = "sign-in"


async def by_bearer(house: House, issuer: SignIns | None, secret: str, channel: Channel) -> Caller:
    """Whoever shows this secret: a token of ours, or one of the issuer's.

    Raises:
        Unidentified: it does not count; why is told to the log alone.
        Unavailable: that cannot be found out now.
        Forbidden: it counts, but lets its bearer do nothing here.
    """
    if issuer is None or secret.startswith(PREFIX):
        return await by_token(house, secret, channel)
    try:
        return await by_issuer(house, issuer, secret, channel)
    except Unidentified as fault:
        log.info("an access token was refused: %s", fault.message)
        raise Unidentified from None


async def by_issuer(house: House, issuer: SignIns, text: str, channel: Channel) -> Caller:
    """Whoever shows this access token, coming through this door.

    Raises:
        Unidentified: it does not count here.
        Unavailable: that cannot be found out now.
        Forbidden: it counts, but lets its bearer do nothing here.
    """
    now = await time_there(house)
    claims = await issuer.claims(text, audience=issuer.settings.audience, now=now)
    who = issued(claims, issuer.settings)
    looked, member = await known_member(house, issuer, claims, channel)
    scopes = granted(who.scopes) & granted(member.scopes)
    if not scopes:
        raise Forbidden(
            "this access token lets its bearer do nothing here; ask the issuer for one with a "
            f"scope of ours: {', '.join(Scope)}",
            needed=[str(scope) for scope in Scope],
            granted=[],
        )
    return Caller(
        org_id=looked.org_id,
        user=member.name,
        channel=channel,
        scopes=scopes,
        # A program that acts for a person is not that person. Their subject is not told: it could
        # not be taken back where they are erased.
        credential=f"client:{who.client}:{member.user_id}",
    )


async def known_member(
    house: House, issuer: SignIns, claims: Claims, channel: Channel
) -> tuple[Looked, Member]:
    """The user somebody is, made at first sight if that is allowed.

    Raises:
        Unidentified: there is no such org, or they may not come in.
    """
    who = issued(claims, issuer.settings)
    looked = await _look(house, issuer, who)
    check_times(claims, looked.now)
    if looked.member is None:
        await _let_in(house, issuer, who, looked, channel)
        looked = await _look(house, issuer, who)
    if looked.member is None or looked.member.is_disabled:
        raise Unidentified("that user may not come in")
    return looked, looked.member


async def time_there(house: House) -> datetime:
    """What time it is at the database; asked only if it has not said a word yet."""
    told = house.database.now()
    if told is None:
        (((told,),),) = await house.database.beside("select app_now()")
    return told


async def _look(house: House, issuer: SignIns, who: Issued) -> Looked:
    asked = members.member_statements(who.org, issuer.settings.issuer, who.subject)
    found = members.read_member((await house.database.finding(who.org, *asked))[-1])
    if found is None:
        raise Unidentified("there is no such org")
    return found


async def _let_in(
    house: House, issuer: SignIns, who: Issued, looked: Looked, channel: Channel
) -> None:
    """Make somebody a user of their org; if another has their name, they get a longer one."""
    scopes = issuer.settings.new_user_scopes
    if scopes is None:
        raise Unidentified("nobody has let that user in")
    doorkeeper = Caller(
        org_id=looked.org_id,
        user=SIGN_IN,
        channel=channel,
        scopes=frozenset({Scope.ADMIN}),
        credential=f"issuer:{issuer.settings.issuer}",
    )
    call = Call(house=house, caller=doorkeeper)
    for name in (who.name, f"{who.name[:80]} ({who.subject[:100]})"):
        new = NewUser(
            name=name,
            scopes=tuple(scopes),
            email=who.email,
            issuer=issuer.settings.issuer,
            subject=who.subject,
        )
        try:
            await add_user(call, new)
        except InvalidInput:
            # Somebody has the name; or they came twice at once, and are let in already.
            if (await _look(house, issuer, who)).member is not None:
                return
            continue
        return
